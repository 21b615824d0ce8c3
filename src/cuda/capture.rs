//! Things that calls of kolo leave in a graph besides kernels: functions that run on the host at
//! each replay, and memory that must stay as long as the graph can run.
//!
//! A graph keeps *user objects*, and tells by a function when it needs them no more: on a thread of
//! the driver, which may not call the driver. So what is over lies in a list until one of kolo's
//! own calls drops it ([`drop_unused`]).

use super::context::Context;
use super::graph::missing;
use super::stream::{StreamId, exchange_capture_mode_relaxed};
use crate::base::{Result, caught};
use cudarc::driver::sys::{CUgraph, CUuserObject};
use std::any::Any;
use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// `CU_USER_OBJECT_NO_DESTRUCTOR_SYNC`, without which there are none.
const NO_SYNC: c_uint = 1;
/// `CU_GRAPH_USER_OBJECT_MOVE`: the graph has the only reference.
const MOVE: c_uint = 1;

/// The capture that a stream is in.
#[derive(Clone, Copy, Debug)]
pub struct StreamCapture {
    /// The driver's address of the graph, which is never followed here.
    graph: usize,
    id: u64,
}

impl StreamCapture {
    /// Asks the driver for the capture of a stream; none where its work runs.
    ///
    /// # Errors
    /// Those of [`StreamId::is_capturing`]; a driver that captures and does not tell the graph.
    pub fn of(context: &Context, stream: StreamId) -> Result<Option<StreamCapture>> {
        if !stream.is_capturing(context)? {
            return Ok(None);
        }
        let info = context.driver().functions().capture_info;
        // Drivers that capture have it, but for one that lacks symbols.
        let info = info.ok_or_else(|| missing(context.driver()))?;
        let _current = context.enter()?;
        let (mut status, mut id): (c_int, c_ulonglong) = (0, 0);
        let mut graph: CUgraph = std::ptr::null_mut();
        // SAFETY: the driver writes two numbers and an address; it is not asked for the others.
        let code = unsafe {
            let nothing = std::ptr::null_mut();
            info(
                stream.raw(),
                &raw mut status,
                &raw mut id,
                &raw mut graph,
                nothing,
                std::ptr::null_mut(),
            )
        };
        context.check(code, "cuStreamGetCaptureInfo", String::new)?;
        Ok(Some(StreamCapture {
            graph: graph as usize,
            id,
        }))
    }

    /// A number that no other capture of this process has.
    pub fn id(self) -> u64 {
        self.id
    }
}

/// A function that a graph runs on the host, and things that it keeps.
pub struct GraphKeeps(Box<KeptByGraph>);

struct KeptByGraph {
    /// Runs on a thread of the driver, and asks nothing of the driver.
    act: Option<Box<dyn Fn() + Send + Sync>>,
    _held: Vec<Arc<dyn Any + Send + Sync>>,
}

static UNUSED: Mutex<Vec<GraphKeeps>> = Mutex::new(Vec::new());
static HAS_UNUSED: AtomicBool = AtomicBool::new(false);

/// Drops what no graph needs any more. May call the driver.
pub fn drop_unused() {
    if HAS_UNUSED.swap(false, Ordering::Acquire) {
        let mut unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner);
        let dropped = std::mem::take(&mut *unused);
        drop(unused);
        // The program may be capturing another graph, of which this is no part.
        let _relaxed = exchange_capture_mode_relaxed();
        drop(dropped);
    }
}

extern "C" fn act(data: *mut c_void) {
    // SAFETY: the graph keeps it: see `GraphKeeps::put`.
    let keeps = unsafe { &*data.cast::<KeptByGraph>() };
    if let Some(act) = &keeps.act
        && let Err(error) = caught(act)
    {
        tracing::error!("{error}");
    }
}

extern "C" fn release(data: *mut c_void) {
    // SAFETY: made of a box by `GraphKeeps::put`, and told of once.
    let keeps = unsafe { Box::from_raw(data.cast::<KeptByGraph>()) };
    let mut unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner);
    unused.push(GraphKeeps(keeps));
    HAS_UNUSED.store(true, Ordering::Release);
}

impl GraphKeeps {
    /// With these, and perhaps something to run.
    pub fn new(
        act: Option<Box<dyn Fn() + Send + Sync>>,
        held: Vec<Arc<dyn Any + Send + Sync>>,
    ) -> GraphKeeps {
        GraphKeeps(Box::new(KeptByGraph { act, _held: held }))
    }

    /// Has the graph of the stream's capture keep all of it, and run what is to be run, in the
    /// order of the stream.
    ///
    /// # Errors
    /// The driver refuses: the capture has failed.
    pub fn put(self, context: &Context, stream: StreamId, capture: StreamCapture) -> Result<()> {
        let data: *mut c_void = std::ptr::from_ref(&*self.0).cast_mut().cast();
        let acts = self.0.act.is_some();
        let _current = context.enter()?;
        // Before the graph names it the graph has it.
        self.keep(context, capture)?;
        if acts {
            let functions = context.driver().functions();
            // SAFETY: the function takes such data, which stay as long as the graph.
            let code = unsafe { (functions.host_function)(stream.raw(), act, data) };
            context.check(code, "cuLaunchHostFunc", String::new)?;
        }
        Ok(())
    }

    /// The context is current.
    fn keep(self, context: &Context, capture: StreamCapture) -> Result<()> {
        let functions = context.driver().functions();
        let (Some(create), Some(retain)) = (functions.user_object, functions.graph_retain) else {
            // Drivers that capture have them, but for one that lacks symbols.
            return Err(missing(context.driver()));
        };
        let mut object: CUuserObject = std::ptr::null_mut();
        let data: *mut c_void = Box::into_raw(self.0).cast();
        // SAFETY: `release` takes such data, once.
        let code = unsafe { create(&raw mut object, data, release, 1, NO_SYNC) };
        context.check(code, "cuUserObjectCreate", String::new)?;
        // SAFETY: both are the driver's own.
        let code = unsafe { retain(capture.graph as CUgraph, object, 1, MOVE) };
        context.check(code, "cuGraphRetainUserObject", String::new)
    }
}
