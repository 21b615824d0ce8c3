//! Room `cuda` on the software GPU: the objects are what they say, failures are sentences, and what
//! must not wait for a device does not.
//!
//! A process has one driver. So each test here starts this program again, with the software GPU in
//! place of the driver and only the tests whose name begins with one word.

mod drawn;
#[path = "cuda/explain.rs"]
mod explain;
#[path = "cuda/gpus.rs"]
mod gpus;
#[path = "cuda/jobs.rs"]
mod jobs;
#[path = "cuda/on_devices.rs"]
mod on_devices;
#[path = "cuda/on_graphs.rs"]
mod on_graphs;
#[path = "cuda/perf.rs"]
mod perf;
#[path = "ports/mod.rs"]
mod ports;
#[path = "cuda/softgpu.rs"]
mod softgpu;
#[path = "cuda/world.rs"]
mod world;

#[test]
fn devices_memory_streams_and_kernels() {
    softgpu::run("on_devices::usual::", &[]);
}

#[test]
fn graphs_of_calls() {
    softgpu::run("on_graphs::", &[]);
}

#[test]
fn devices_that_do_not_reach_each_other() {
    softgpu::run("on_devices::apart::", &[("KOLO_SOFTGPU_PEERS", "0")]);
}

#[test]
fn a_driver_of_cuda_11_4_is_enough() {
    let old = [("KOLO_SOFTGPU_DRIVER", "11040")];
    softgpu::run("on_devices::usual::", &old);
}

#[test]
fn a_driver_before_that_is_refused() {
    let old = [("KOLO_SOFTGPU_DRIVER", "11030")];
    softgpu::run("on_devices::old::", &old);
}

#[test]
fn memory_that_a_device_does_not_have() {
    let fault = [("KOLO_SOFTGPU_FAULT", "memory:2")];
    softgpu::run("on_devices::short::", &fault);
}

#[test]
fn a_kernel_that_fails() {
    let fault = [("KOLO_SOFTGPU_FAULT", "launch:1")];
    softgpu::run("on_devices::failing::", &fault);
}
