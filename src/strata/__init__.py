"""Strata: which storage stack should hold this workload, on these disks?"""
