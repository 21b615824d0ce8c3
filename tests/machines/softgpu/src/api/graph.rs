//! Graphs, their instances, and the objects that they hold.

use super::entry::{driver, enter, live};
use crate::abi::Out;
use crate::error::{Answer, Code};
use crate::graph::run::Run;
use crate::task::{Task, TaskExecutable, TaskGraph};
use std::ffi::{c_char, c_void};

fn instantiate(to: &Out<u64>, graph: u64) -> Answer {
    let mut turn = live()?;
    let known = turn.graphs.get(graph)?;
    if known.is_open || !to.is_asked() {
        return Err(Code::INVALID_VALUE);
    }
    let executable = TaskExecutable {
        instance: known.instantiate(),
        last: None,
    };
    to.set(turn.executables.add(executable))
}

/// `CU_USER_OBJECT_NO_DESTRUCTOR_SYNC`, which is required.
const NO_SYNC: u32 = 1;
/// `CU_GRAPH_USER_OBJECT_MOVE`.
const MOVE: u32 = 1;

driver! {
    10_000 cuGraphCreate(to: Out<u64>, flags: u32) {
        let mut turn = live()?;
        if flags != 0 || !to.is_asked() {
            return Err(Code::INVALID_VALUE);
        }
        to.set(turn.graphs.add(TaskGraph::default()))
    }

    10_000 cuGraphDestroy(graph: u64) {
        let mut turn = enter()?;
        if turn.graphs.get(graph)?.is_open {
            return Err(Code::INVALID_VALUE);
        }
        turn.graphs.remove(graph).map(|_| ())
    }

    10_000 cuGraphGetNodes(graph: u64, nodes: Out<u64>, count: Out<usize>) {
        let turn = live()?;
        let known = turn.graphs.get(graph)?;
        let all = known.nodes.len();
        if !nodes.is_asked() {
            return count.set(all);
        }
        let room = count.get()?;
        for (at, node) in known.nodes.iter().take(room).enumerate() {
            nodes.behind(at).set(node.handle)?;
        }
        // Room for more shows no node.
        for at in all..room {
            nodes.behind(at).set(0)?;
        }
        count.set(room.min(all))
    }

    10_000 cuGraphNodeGetType(node: u64, kind: Out<i32>) {
        let turn = live()?;
        let mut all = turn.graphs.iter().flat_map(|(_, graph)| &graph.nodes);
        let found = all.find(|known| known.handle == node).ok_or(Code::INVALID_VALUE)?;
        kind.set(found.task.kind())
    }

    11_000 cuGraphInstantiate_v2(
        to: Out<u64>,
        graph: u64,
        node: Out<u64>,
        text: Out<c_char>,
        most: usize,
    ) {
        node.set_if_asked(0);
        if text.is_asked() && most > 0 {
            text.set(0)?;
        }
        instantiate(&to, graph)
    }

    11_040 cuGraphInstantiateWithFlags(to: Out<u64>, graph: u64, flags: u64) {
        // Memory nodes, upload at once, launch from the device, priorities: the first and the last
        // change nothing here.
        match flags & !(1 | 8) {
            0 => instantiate(&to, graph),
            _ => Err(Code::NOT_SUPPORTED),
        }
    }

    11_010 cuGraphUpload(executable: u64, stream: u64) {
        let mut turn = live()?;
        turn.stream(stream)?;
        turn.executables.get(executable).map(|_| ())
    }

    10_000 cuGraphLaunch(executable: u64, stream: u64) {
        let mut turn = live()?;
        let stream = turn.stream(stream)?;
        let known = turn.executables.get(executable)?;
        let after = known.last.into_iter().collect();
        let task = Task::Graph(Run::new(known.instance.clone()));
        let is_captured = turn.captures.of(stream).is_some();
        let point = turn.submit(stream, after, task)?;
        if !is_captured {
            turn.executables.get_mut(executable)?.last = Some(point);
        }
        Ok(())
    }

    10_000 cuGraphExecDestroy(executable: u64) {
        // What runs of it goes on.
        enter()?.executables.remove(executable).map(|_| ())
    }

    11_030 cuUserObjectCreate(
        to: Out<u64>,
        data: *mut c_void,
        destroy: Option<extern "C" fn(*mut c_void)>,
        count: u32,
        flags: u32,
    ) {
        let mut turn = live()?;
        let destroy = destroy.ok_or(Code::INVALID_VALUE)?;
        if flags != NO_SYNC || !to.is_asked() {
            return Err(Code::INVALID_VALUE);
        }
        to.set(turn.objects.create(destroy, data.expose_provenance() as u64, count)?)
    }

    11_030 cuUserObjectRetain(object: u64, count: u32) {
        enter()?.objects.retain(object, count)
    }

    11_030 cuUserObjectRelease(object: u64, count: u32) {
        enter()?.objects.release(object, count)
    }

    11_030 cuGraphRetainUserObject(graph: u64, object: u64, count: u32, flags: u32) {
        let mut turn = live()?;
        if flags & !MOVE != 0 {
            return Err(Code::INVALID_VALUE);
        }
        turn.graphs.get(graph)?;
        let held = turn.objects.hold(object, count, flags == MOVE)?;
        turn.graphs.get_mut(graph)?.objects.push(held);
        Ok(())
    }

    11_030 cuGraphReleaseUserObject(graph: u64, object: u64, count: u32) {
        let mut turn = live()?;
        let state = &mut *turn.state;
        let held = &mut state.graphs.get_mut(graph)?.objects;
        state.objects.give_back(held, object, count)
    }
}
