//! What tests are made of: naive models, the drivers that hold the real thing against them, and seeded randomness.
//!
//! A model is slow and so plain that a reader believes it at sight. A driver takes a stream of choices (random numbers, a
//! fuzzer's bytes, a property test's case), does the same to the model and to the real thing, and panics where they
//! differ. One driver serves the property tests, the long runs and the fuzzers.
//!
//! With the feature `real`, also launchers of the real parts (etcd, kube-apiserver, kubectl, cadastre) as processes.

pub mod blocks;
pub mod both;
pub mod choices;
pub mod fuzz;
pub mod judge;
pub mod naive;
pub mod naive_pool;
pub mod pool;
#[cfg(feature = "real")]
pub mod real;
