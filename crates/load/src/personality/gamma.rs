// SPDX-License-Identifier: Apache-2.0
//! Gamma-distributed numbers by Knuth's methods, as filebench draws them (`gamma_dist.c`).
//!
//! In `libm`'s pure Rust, so that a seed gives the same sizes on every machine.

use std::f64::consts::{E, PI};

use crate::random::Random;

/// A number of the gamma distribution of mean `mean` and shape `shape`; `shape` 0 is no distribution at all.
pub fn gamma_of_mean(random: &mut Random, mean: f64, shape: f64) -> f64 {
    if shape <= 0.0 {
        return mean;
    }
    let unscaled = if shape <= 1.0 { method_g(random, shape) } else { method_a(random, shape) };
    unscaled * (mean / shape)
}

/// The Art of Computer Programming, volume 2, 3rd edition, page 134: for shapes above 1.
fn method_a(random: &mut Random, shape: f64) -> f64 {
    let spread = libm::sqrt(2.0 * shape - 1.0);
    loop {
        let y = libm::tan(PI * random.unit());
        let x = spread * y + shape - 1.0;
        if x <= 0.0 {
            continue;
        }
        let accepted = (1.0 + y * y) * libm::exp((shape - 1.0) * libm::log(x / (shape - 1.0)) - spread * y);
        if random.unit() <= accepted {
            return x;
        }
    }
}

/// The same, pages 586 and 587: for shapes up to 1.
fn method_g(random: &mut Random, shape: f64) -> f64 {
    let share_below_one = E / (shape + E);
    loop {
        let is_below_one = random.unit() < share_below_one;
        let v = random.unit_above_zero();
        let (x, accepted) = if is_below_one {
            let x = libm::pow(v, 1.0 / shape);
            (x, libm::exp(-x))
        } else {
            let x = 1.0 - libm::log(v);
            (x, libm::pow(x, shape - 1.0))
        };
        if random.unit() < accepted {
            return x;
        }
    }
}
