//! The driver's functions that kolo calls, looked up by name.
//!
//! The types are those of CUDA's headers, but for results and for what a function writes: there an
//! enumeration is a number, because a newer driver may write one that today's enumerations lack.

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUfunction, CUgraph,
    CUgraphExec, CUgraphNode, CUmemAccessDesc, CUmemAllocationGranularity_flags,
    CUmemAllocationHandleType, CUmemAllocationProp, CUmemGenericAllocationHandle, CUmodule,
    CUpointer_attribute, CUstream, CUuserObject, CUuuid,
};
use libloading::os::unix::Library;
use std::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_void};

/// Makes a structure with a field for each function, and how it is read from the library.
macro_rules! functions {
    (
        required { $( $name:ident = $symbol:ident ( $($argument:ty),* $(,)? ); )+ }
        optional { $( $late:ident = $late_symbol:ident since $since:literal
            ( $($late_argument:ty),* $(,)? ); )+ }
    ) => {
        /// Functions of the driver. Those of newer drivers may be missing.
        #[allow(missing_docs, reason = "the names are the driver's own")]
        pub struct DriverFunctions {
            $( pub $name: unsafe extern "C" fn($($argument),*) -> c_int, )+
            $( pub $late: Option<unsafe extern "C" fn($($late_argument),*) -> c_int>, )+
        }

        impl DriverFunctions {
            /// Looks up all of them.
            ///
            /// # Errors
            /// The name of a function that every driver kolo works with has, and this one lacks.
            ///
            /// # Safety
            /// What the library has under these names is what CUDA says of them.
            pub unsafe fn of(library: &Library) -> Result<DriverFunctions, &'static str> {
                // SAFETY: the caller's promise.
                unsafe {
                    Ok(DriverFunctions {
                        $( $name: *library
                            .get(concat!(stringify!($symbol), "\0").as_bytes())
                            .map_err(|_| stringify!($symbol))?, )+
                        $( $late: library
                            .get(concat!(stringify!($late_symbol), "\0").as_bytes())
                            .ok()
                            .map(|function| *function), )+
                    })
                }
            }

            /// Forgets what drivers of this version do not have, whatever the library's names say.
            pub fn keep_to(&mut self, version: i32) {
                $( if version < $since {
                    self.$late = None;
                } )+
            }
        }
    };
}

functions! {
    required {
        init = cuInit(c_uint);
        driver_version = cuDriverGetVersion(*mut c_int);
        error_name = cuGetErrorName(c_int, *mut *const c_char);
        error_text = cuGetErrorString(c_int, *mut *const c_char);

        device_count = cuDeviceGetCount(*mut c_int);
        device = cuDeviceGet(*mut CUdevice, c_int);
        device_name = cuDeviceGetName(*mut c_char, c_int, CUdevice);
        device_uuid = cuDeviceGetUuid_v2(*mut CUuuid, CUdevice);
        device_pci = cuDeviceGetPCIBusId(*mut c_char, c_int, CUdevice);
        memory_info = cuMemGetInfo_v2(*mut usize, *mut usize);
        device_attribute = cuDeviceGetAttribute(*mut c_int, CUdevice_attribute, CUdevice);
        can_access_peer = cuDeviceCanAccessPeer(*mut c_int, CUdevice, CUdevice);

        primary_retain = cuDevicePrimaryCtxRetain(*mut CUcontext, CUdevice);
        context_push = cuCtxPushCurrent_v2(CUcontext);
        context_pop = cuCtxPopCurrent_v2(*mut CUcontext);
        context_current = cuCtxGetCurrent(*mut CUcontext);
        context_device = cuCtxGetDevice(*mut CUdevice);
        context_synchronize = cuCtxSynchronize();
        enable_peer = cuCtxEnablePeerAccess(CUcontext, c_uint);

        memory_granularity = cuMemGetAllocationGranularity(
            *mut usize, *const CUmemAllocationProp, CUmemAllocationGranularity_flags);
        memory_create = cuMemCreate(
            *mut CUmemGenericAllocationHandle, usize, *const CUmemAllocationProp, c_ulonglong);
        memory_release = cuMemRelease(CUmemGenericAllocationHandle);
        memory_reserve = cuMemAddressReserve(
            *mut CUdeviceptr, usize, usize, CUdeviceptr, c_ulonglong);
        memory_unreserve = cuMemAddressFree(CUdeviceptr, usize);
        memory_map = cuMemMap(
            CUdeviceptr, usize, usize, CUmemGenericAllocationHandle, c_ulonglong);
        memory_unmap = cuMemUnmap(CUdeviceptr, usize);
        memory_access = cuMemSetAccess(CUdeviceptr, usize, *const CUmemAccessDesc, usize);
        memory_export = cuMemExportToShareableHandle(
            *mut c_void, CUmemGenericAllocationHandle, CUmemAllocationHandleType, c_ulonglong);
        memory_import = cuMemImportFromShareableHandle(
            *mut CUmemGenericAllocationHandle, *mut c_void, CUmemAllocationHandleType);

        host_allocate = cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
        host_register = cuMemHostRegister_v2(*mut c_void, usize, c_uint);
        host_unregister = cuMemHostUnregister(*mut c_void);
        host_address = cuMemHostGetDevicePointer_v2(*mut CUdeviceptr, *mut c_void, c_uint);
        pointer_attributes = cuPointerGetAttributes(
            c_uint, *mut CUpointer_attribute, *mut *mut c_void, CUdeviceptr);

        copy_in = cuMemcpyHtoDAsync_v2(CUdeviceptr, *const c_void, usize, CUstream);
        copy_out = cuMemcpyDtoHAsync_v2(*mut c_void, CUdeviceptr, usize, CUstream);
        copy = cuMemcpyAsync(CUdeviceptr, CUdeviceptr, usize, CUstream);
        fill = cuMemsetD8Async(CUdeviceptr, c_uchar, usize, CUstream);

        stream_create = cuStreamCreate(*mut CUstream, c_uint);
        stream_destroy = cuStreamDestroy_v2(CUstream);
        stream_query = cuStreamQuery(CUstream);
        stream_flags = cuStreamGetFlags(CUstream, *mut c_uint);
        stream_synchronize = cuStreamSynchronize(CUstream);
        stream_wait = cuStreamWaitEvent(CUstream, CUevent, c_uint);
        stream_context = cuStreamGetCtx(CUstream, *mut CUcontext);
        host_function = cuLaunchHostFunc(
            CUstream, extern "C" fn(*mut c_void), *mut c_void);

        event_create = cuEventCreate(*mut CUevent, c_uint);
        event_destroy = cuEventDestroy_v2(CUevent);
        event_record = cuEventRecord(CUevent, CUstream);
        event_query = cuEventQuery(CUevent);

        module_load = cuModuleLoadData(*mut CUmodule, *const c_void);
        module_function = cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char);
        occupancy = cuOccupancyMaxActiveBlocksPerMultiprocessor(
            *mut c_int, CUfunction, c_int, usize);
        launch = cuLaunchKernel(
            CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream,
            *mut *mut c_void, *mut *mut c_void);
    }
    optional {
        stream_capture = cuStreamIsCapturing since 11040(CUstream, *mut c_int);
        exchange_capture_mode = cuThreadExchangeStreamCaptureMode since 11040(*mut c_int);
        capture_begin = cuStreamBeginCapture_v2 since 11040(CUstream, c_int);
        capture_end = cuStreamEndCapture since 11040(CUstream, *mut CUgraph);
        graph_instantiate = cuGraphInstantiateWithFlags since 11040(
            *mut CUgraphExec, CUgraph, c_ulonglong);
        graph_launch = cuGraphLaunch since 11040(CUgraphExec, CUstream);
        graph_destroy = cuGraphDestroy since 11040(CUgraph);
        graph_exec_destroy = cuGraphExecDestroy since 11040(CUgraphExec);
        capture_info = cuStreamGetCaptureInfo_v2 since 11030(
            CUstream, *mut c_int, *mut c_ulonglong, *mut CUgraph, *mut *const CUgraphNode,
            *mut usize);
        user_object = cuUserObjectCreate since 11030(
            *mut CUuserObject, *mut c_void, extern "C" fn(*mut c_void), c_uint, c_uint);
        graph_retain = cuGraphRetainUserObject since 11030(
            CUgraph, CUuserObject, c_uint, c_uint);
        stream_id = cuStreamGetId since 12000(CUstream, *mut c_ulonglong);
        function_load = cuFuncLoad since 12040(CUfunction);
        function_parameter = cuFuncGetParamInfo since 12040(
            CUfunction, usize, *mut usize, *mut usize);
    }
}
