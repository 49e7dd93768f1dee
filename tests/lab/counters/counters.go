// SPDX-License-Identifier: Apache-2.0

// The processor's counter and Go's clock around the same writes.
package main

import (
	"fmt"
	"os"
	"time"
)

func rdtsc() uint64

func main() {
	file, err := os.Create(os.Args[1])
	counter, start := rdtsc(), time.Now()
	for i := int64(0); i < 20 && err == nil; i++ {
		if _, err = file.WriteAt([]byte("x"), i*4096); err == nil {
			err = file.Sync()
		}
	}
	if err != nil {
		panic(err)
	}
	fmt.Printf("rdtsc %d clock %d\n", rdtsc()-counter, time.Since(start).Nanoseconds())
}
