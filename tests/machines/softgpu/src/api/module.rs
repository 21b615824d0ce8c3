//! Modules, libraries and functions. Loading and unloading wait for the device, as a driver may.

use super::entry::{driver, live, outside};
use crate::abi::{In, Out};
use crate::device::{MOST_THREADS, SHARED_BYTES};
use crate::error::{Answer, Code};
use crate::module;
use crate::state::Turn;
use std::ffi::{c_char, c_void};

/// An image in memory, whose length nobody says.
fn check(image: In<u8>) -> Answer {
    if image.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    module::check(|at| image.at(at))
}

fn read(path: In<c_char>) -> Answer<Vec<u8>> {
    std::fs::read(path.text()?).map_err(|_| Code::FILE_NOT_FOUND)
}

fn check_file(path: In<c_char>) -> Answer {
    let bytes = read(path)?;
    module::check(|at| bytes.get(at).copied().ok_or(Code::NO_BINARY_FOR_GPU))
}

fn load(to: &Out<u64>, checked: Answer) -> Answer {
    let mut turn = outside()?;
    let (context, device) = turn.current()?;
    if !to.is_asked() {
        return Err(Code::INVALID_VALUE);
    }
    turn.wait_for_device(device)?;
    checked?;
    to.set(turn.modules.load(context))
}

fn load_library(to: &Out<u64>, checked: Answer) -> Answer {
    let mut turn = outside()?;
    if !to.is_asked() {
        return Err(Code::INVALID_VALUE);
    }
    if let Ok((_, device)) = turn.current() {
        turn.wait_for_device(device)?;
    }
    checked?;
    to.set(turn.modules.libraries.add(()))
}

// CU_FUNC_ATTRIBUTE_*
fn attribute(number: i32) -> Answer<i32> {
    Ok(match number {
        0 => MOST_THREADS as i32,
        // Shared memory of the function, and what a launch may add: none.
        1 => SHARED_BYTES,
        4 => 96,
        5 => 70,
        6 => 90,
        2..=15 => 0,
        _ => return Err(Code::INVALID_VALUE),
    })
}

/// Where a parameter of a function lies, and how long it is: all have one.
fn tell_parameter(
    function: u64,
    index: usize,
    (offset, bytes): (&Out<usize>, &Out<usize>),
) -> Answer {
    let mut turn = live()?;
    let current = turn.current();
    let function = turn.modules.get(function, current)?;
    if index > 0 {
        return Err(Code::INVALID_VALUE);
    }
    bytes.set_if_asked(turn.modules.kernel(function).1.launch_bytes());
    offset.set(0)
}

fn function_known(turn: &mut Turn, function: u64) -> Answer {
    let current = turn.current();
    turn.modules.get(function, current).map(|_| ())
}

driver! {
    2_000 cuModuleLoad(to: Out<u64>, path: In<c_char>) {
        load(&to, check_file(path))
    }

    2_000 cuModuleLoadData(to: Out<u64>, image: In<u8>) {
        load(&to, check(image))
    }

    2_010 cuModuleLoadDataEx(
        to: Out<u64>,
        image: In<u8>,
        _count: u32,
        _options: In<i32>,
        _values: In<*mut c_void>,
    ) {
        load(&to, check(image))
    }

    2_000 cuModuleLoadFatBinary(to: Out<u64>, image: In<u8>) {
        load(&to, check(image))
    }

    2_000 cuModuleUnload(module: u64) {
        let mut turn = outside()?;
        let context = turn.modules.context_of(module)?;
        let device = turn.context(context)?.device;
        turn.wait_for_device(device)?;
        turn.modules.unload(module)
    }

    11_070 cuModuleGetLoadingMode(to: Out<i32>) {
        // Lazy: what a function needs is loaded with its first use.
        to.set(2)
    }

    2_000 cuModuleGetFunction(to: Out<u64>, module: u64, name: In<c_char>) {
        let mut turn = live()?;
        let context = turn.modules.context_of(module)?;
        let device = turn.context(context)?.device;
        if !to.is_asked() {
            return Err(Code::INVALID_VALUE);
        }
        to.set(turn.modules.function(module, device, &name.text()?)?)
    }

    12_040 cuModuleGetFunctionCount(to: Out<u32>, module: u64) {
        let turn = live()?;
        turn.modules.context_of(module)?;
        to.set(turn.modules.count() as u32)
    }

    12_000 cuLibraryLoadData(
        to: Out<u64>,
        image: In<u8>,
        _options: In<i32>,
        _values: In<*mut c_void>,
        _count: u32,
        _library_options: In<i32>,
        _library_values: In<*mut c_void>,
        _library_count: u32,
    ) {
        load_library(&to, check(image))
    }

    12_000 cuLibraryLoadFromFile(
        to: Out<u64>,
        path: In<c_char>,
        _options: In<i32>,
        _values: In<*mut c_void>,
        _count: u32,
        _library_options: In<i32>,
        _library_values: In<*mut c_void>,
        _library_count: u32,
    ) {
        load_library(&to, check_file(path))
    }

    12_000 cuLibraryUnload(library: u64) {
        let mut turn = outside()?;
        for device in 0..turn.devices.len() {
            turn.wait_for_device(device as u32)?;
        }
        turn.modules.unload_library(library)
    }

    12_000 cuLibraryGetKernel(to: Out<u64>, library: u64, name: In<c_char>) {
        let mut turn = live()?;
        if !to.is_asked() {
            return Err(Code::INVALID_VALUE);
        }
        to.set(turn.modules.library_kernel(library, &name.text()?)?)
    }

    12_000 cuKernelGetFunction(to: Out<u64>, kernel: u64) {
        let mut turn = live()?;
        let current = turn.current();
        if !to.is_asked() {
            return Err(Code::INVALID_VALUE);
        }
        to.set(turn.modules.kernel_function(kernel, current)?)
    }

    12_000 cuKernelGetAttribute(value: Out<i32>, number: i32, kernel: u64, _device: i32) {
        let mut turn = live()?;
        function_known(&mut turn, kernel)?;
        value.set(attribute(number)?)
    }

    2_020 cuFuncGetAttribute(value: Out<i32>, number: i32, function: u64) {
        let mut turn = live()?;
        function_known(&mut turn, function)?;
        value.set(attribute(number)?)
    }

    9_000 cuFuncSetAttribute(function: u64, number: i32, value: i32) {
        let mut turn = live()?;
        function_known(&mut turn, function)?;
        // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: the kernels take none. The carve-out
        // (9) is a wish.
        match (number, value) {
            (8, 0) | (9, -1..=100) => Ok(()),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    3_000 cuFuncSetCacheConfig(function: u64, _config: i32) {
        let mut turn = live()?;
        function_known(&mut turn, function)
    }

    11_000 cuFuncGetModule(to: Out<u64>, function: u64) {
        let mut turn = live()?;
        let current = turn.current();
        to.set(turn.modules.get(function, current)?.module)
    }

    12_030 cuFuncGetName(to: Out<*const c_char>, function: u64) {
        let mut turn = live()?;
        let current = turn.current();
        let function = turn.modules.get(function, current)?;
        to.set(turn.modules.kernel(function).1.name().as_ptr())
    }

    12_040 cuFuncGetParamInfo(
        function: u64,
        index: usize,
        offset: Out<usize>,
        bytes: Out<usize>,
    ) {
        tell_parameter(function, index, (&offset, &bytes))
    }

    12_040 cuKernelGetParamInfo(
        kernel: u64,
        index: usize,
        offset: Out<usize>,
        bytes: Out<usize>,
    ) {
        tell_parameter(kernel, index, (&offset, &bytes))
    }

    12_040 cuFuncIsLoaded(state: Out<i32>, function: u64) {
        let mut turn = live()?;
        function_known(&mut turn, function)?;
        state.set(1)
    }

    12_040 cuFuncLoad(function: u64) {
        let mut turn = outside()?;
        let current = turn.current();
        let device = turn.modules.get(function, current)?.device;
        turn.wait_for_device(device)
    }

    6_050 cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: Out<i32>,
        function: u64,
        threads: i32,
        _shared_bytes: usize,
    ) {
        let mut turn = live()?;
        function_known(&mut turn, function)?;
        if threads < 1 {
            return Err(Code::INVALID_VALUE);
        }
        blocks.set(i32::from(threads <= MOST_THREADS as i32))
    }

    7_000 cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: Out<i32>,
        function: u64,
        threads: i32,
        _shared_bytes: usize,
        flags: u32,
    ) {
        let mut turn = live()?;
        function_known(&mut turn, function)?;
        if threads < 1 || flags > 1 {
            return Err(Code::INVALID_VALUE);
        }
        blocks.set(i32::from(threads <= MOST_THREADS as i32))
    }
}
