//! Graphs: calls on a stream, written down once and run again and again.

use super::context::Context;
use super::driver::Driver;
use super::stream::StreamId;
use crate::base::{Error, Result};
use cudarc::driver::sys::{CUgraph, CUgraphExec};
use std::ffi::c_int;
use std::sync::Arc;

/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`: other threads go on as they like.
const THREAD_LOCAL: c_int = 1;

/// Graph that a capture has written down.
pub struct DeviceGraph {
    context: Arc<Context>,
    raw: usize,
}

impl DeviceGraph {
    /// Runs `body`, whose calls on the stream are written down and not run.
    ///
    /// # Errors
    /// Those of `body`; the driver's: a call that cannot be captured.
    pub fn capture(
        context: &Arc<Context>,
        stream: StreamId,
        body: impl FnOnce() -> Result<()>,
    ) -> Result<DeviceGraph> {
        let functions = context.driver().functions();
        let (Some(begin), Some(end), Some(instantiate), Some(destroy)) = (
            functions.capture_begin,
            functions.capture_end,
            functions.graph_instantiate,
            functions.graph_destroy,
        ) else {
            return Err(missing(context.driver()));
        };
        {
            let _current = context.enter()?;
            // SAFETY: the driver checks the stream.
            let code = unsafe { begin(stream.raw(), THREAD_LOCAL) };
            context.check(code, "cuStreamBeginCapture", String::new)?;
        }
        let done = body();
        let _current = context.enter()?;
        let mut graph: CUgraph = std::ptr::null_mut();
        // SAFETY: the capture began above; the driver writes one address, null where it failed.
        let code = unsafe { end(stream.raw(), &raw mut graph) };
        // What the body says of its failure says more than that the capture has failed.
        let ended = done.and_then(|()| context.check(code, "cuStreamEndCapture", String::new));
        let made = ended.and_then(|()| {
            let mut raw: CUgraphExec = std::ptr::null_mut();
            // SAFETY: the graph is whole; the driver writes one address.
            let code = unsafe { instantiate(&raw mut raw, graph, 0) };
            context.check(code, "cuGraphInstantiate", String::new)?;
            Ok(DeviceGraph {
                context: context.clone(),
                raw: raw as usize,
            })
        });
        if !graph.is_null() {
            // SAFETY: what runs is a copy of it.
            unsafe { destroy(graph) };
        }
        made
    }

    /// Runs it behind the work of the stream.
    ///
    /// # Errors
    /// The driver's.
    pub fn launch(&self, stream: StreamId) -> Result<()> {
        let _current = self.context.enter()?;
        let launch = self.context.driver().functions().graph_launch;
        let launch = launch.ok_or_else(|| missing(self.context.driver()))?;
        // SAFETY: the graph lives; the driver checks the stream.
        let code = unsafe { launch(self.raw as CUgraphExec, stream.raw()) };
        self.context.check(code, "cuGraphLaunch", String::new)
    }
}

/// The driver lacks functions that graphs need.
pub(super) fn missing(driver: &Driver) -> Error {
    Error::usage(
        format!(
            "the driver of CUDA {} has no graphs",
            super::driver::dotted(driver.version())
        ),
        "make the calls one by one",
    )
}

impl Drop for DeviceGraph {
    fn drop(&mut self) {
        let destroy = self.context.driver().functions().graph_exec_destroy;
        if let (Some(destroy), Ok(_current)) = (destroy, self.context.enter()) {
            // SAFETY: made by `capture`, and destroyed once; what of it still runs goes on.
            unsafe { destroy(self.raw as CUgraphExec) };
        }
    }
}
