//! Calls on a stream of the communicator's device: checked, planned and handed over. What a stream
//! has is done in its order by the device, and the call returns at once.
//!
//! Data path: [`super::enqueue`] checks the arguments -> [`on_device`] -> the
//! route of the device's table -> an order -> [`crate::exec::CudaEngine`] -> a kernel.
//!
//! A call that cannot be made is refused before its number counts; when something fails after that,
//! the communicator stops, because the other ranks count on the call.

use super::begin;
use super::call::Collective;
use super::checked::Checked;
use super::compose;
use super::member::Member;
use super::parts::{Deed, Part};
use super::traced;
use crate::base::clock;
use crate::base::{Error, Rank, Result};
use crate::comm::failing::ended;
use crate::comm::failing::still_there;
use crate::comm::flight::order;
use crate::comm::flight::wait::Waiter;
use crate::comm::owned::{Exec, OnDevice};
use crate::comm::queue::Queue;
use crate::exec::order::LaunchOrder;
use crate::exec::{CommDevice, DeviceMessage, DeviceStream, LaunchPlace, Waiting};
use crate::plan::{Algorithm, Direction, Placing, Shape};
use crate::proxy::net::Links;
use crate::tune::{Asked, CallForm, Choice, Combining, Route, ToldRoute, device};
use std::sync::Arc;

/// How a call is told of: what follows its arguments.
const ON_DEVICE: &str = " on a stream of the device";

/// Puts a checked call on a stream of the device.
pub(in crate::comm) fn on_device(
    queue: &Queue,
    checked: &mut Checked,
    stream: DeviceStream,
) -> Result<()> {
    let mut exec = queue.user()?;
    let context = of_device(&mut exec)?.engine.context();
    let _current = context.enter()?;
    let to = admit(&mut exec, checked, stream)?;
    checked.refuse_own(queue.rank)?;
    let number = begin::begin(queue, &mut exec, checked);
    put_on_device(queue, &mut exec, checked, number, (&to, ON_DEVICE))
}

/// The route by which the device runs a call, with the plan that was launched: its own table
/// chooses, not the host's.
#[cold]
fn told_on_device(exec: &Exec, checked: &Checked) -> ToldRoute {
    let launched = exec.device.as_deref().and_then(|on| on.launched);
    let form = CallForm::Kernel;
    let route = match (checked.call.collective, launched) {
        (Collective::Barrier, Some(choice)) => Route::Plan { choice, form },
        (Collective::Barrier, None) => Route::Nothing,
        _ => exec.asked_route(&checked.asked()).1,
    };
    ToldRoute {
        route,
        collective: checked.call.collective,
        choice: launched,
    }
}

/// The engine of the device, which a call on a stream of it needs.
fn of_device(exec: &mut Exec) -> Result<&mut OnDevice> {
    exec.device.as_deref_mut().ok_or_else(no_device)
}

#[cold]
fn no_device() -> Error {
    Error::argument(
        "the stream is one of a GPU, and the communicator is on the host",
        "give a stream of koloStreamCreate, or make the communicator on a device \
         (koloConfig_t.device)",
    )
}

/// Refuses what the device cannot do, while nothing has begun. Returns where the launches of the
/// call go.
fn admit(exec: &mut Exec, checked: &Checked, stream: DeviceStream) -> Result<LaunchPlace> {
    let to = of_device(exec)?.engine.place(stream)?;
    if !checked.is_empty() && checked.call.collective != Collective::Barrier {
        admit_data(exec, checked)?;
    }
    Ok(to)
}

/// Refuses elements and buffers that the device cannot take.
fn admit_data(exec: &Exec, checked: &Checked) -> Result<()> {
    let on = exec.device.as_deref().ok_or_else(no_device)?;
    if checked.asked().combining == Combining::Exact {
        return Err(Error::usage(
            "exact sums are computed in memory of the host",
            "use a communicator on the host, or sum on the device (koloSum)",
        ));
    }
    let folds = |part: &Part| part.deed == Deed::Fold;
    if checked
        .parts
        .as_deref()
        .is_some_and(|parts| parts.iter().any(folds))
    {
        return Err(Error::usage(
            "blocks of different sizes are not reduced on a device",
            "use ReduceScatter with blocks of one size, or a communicator on the host",
        ));
    }
    on.engine.can_combine(&checked.combine())?;
    let (send, recv) = checked.buffer_bytes(exec.members.rank, exec.members.nranks);
    let call = &checked.call;
    let has_parts = checked.parts.is_some();
    let has_send = (send > 0 || has_parts) && !call.send.is_null();
    if has_send {
        on.engine.check_buffer("send", call.send)?;
    }
    // In place, both are one question.
    let is_known = has_send && std::ptr::eq(call.send, call.recv);
    if (recv > 0 || has_parts) && !call.recv.is_null() && !is_known {
        on.engine.check_buffer("receive", call.recv.cast_const())?;
    }
    Ok(())
}

/// A message as the engine takes it.
fn message(direction: Direction, place: *const u8, bytes: usize, peer: u32) -> DeviceMessage {
    DeviceMessage {
        peer,
        direction,
        address: place as u64,
        bytes,
    }
}

/// The message of a call to or from a peer.
fn of_call(checked: &Checked) -> DeviceMessage {
    let call = &checked.call;
    match call.collective {
        Collective::Send => message(Direction::Send, call.send, checked.bytes, call.peer),
        _ => message(Direction::Recv, call.recv, checked.bytes, call.peer),
    }
}

/// Puts a call that has begun on a stream.
fn put_on_device(
    queue: &Queue,
    exec: &mut Exec,
    checked: &Checked,
    number: Option<u64>,
    (to, way): (&LaunchPlace, &str),
) -> Result<()> {
    let begun = queue.seen.at_all.then(clock::now);
    if let Some(on) = exec.device.as_deref_mut() {
        on.launched = None;
    }
    // Nobody waits in this call who could see that a rank is missing.
    let put = still_there::all_are_there(queue, &checked.call);
    let put = put.and_then(|()| take_stream(exec, number, to));
    let put = put.and_then(|()| hand_over(queue, exec, checked, to));
    let put = put.map_err(|error| queue.fail(exec, error));
    if let Some(begun) = begun {
        let told = told_on_device(exec, checked);
        traced::told(queue, checked, number, (way, told), (begun, &put));
    }
    put
}

/// Ranks that share a device must not share a stream: it stops the communicator, so that
/// kernels which wait already leave.
fn take_stream(exec: &mut Exec, number: Option<u64>, to: &LaunchPlace) -> Result<()> {
    let Some(number) = number else { return Ok(()) };
    of_device(exec)?.engine.take_stream(number, to)
}

fn hand_over(queue: &Queue, exec: &mut Exec, checked: &Checked, to: &LaunchPlace) -> Result<()> {
    let asked = checked.asked();
    let table = &of_device(exec)?.table;
    if checked.call.collective == Collective::Barrier {
        return match queue.nranks {
            1 => Ok(()),
            _ => {
                let barrier = Algorithm::Dissemination;
                let choice = Choice::plain(Collective::Barrier, barrier, 1);
                launch(exec, checked, choice, to)
            }
        };
    }
    let route = device::route(&asked, table);
    match route {
        Route::Nothing => Ok(()),
        Route::Composed => {
            let parts = compose::parts_of(queue, exec, checked)?;
            let put = |part| hand_over(queue, exec, part, to);
            parts.iter().try_for_each(put)
        }
        Route::Parts { .. } => exchange_parts(exec, checked, to),
        _ if asked.collective.is_point_to_point() => exchange(exec, &[of_call(checked)], to),
        Route::Alone { .. } => {
            let call = &checked.call;
            let (_, bytes) = checked.buffer_bytes(queue.rank, queue.nranks);
            // SAFETY: the promise of `enqueue`.
            unsafe {
                of_device(exec)?
                    .engine
                    .copy(call.send as u64, call.recv as u64, bytes, to)
            }
        }
        route => {
            let choice = route.choice(&asked, table);
            let choice = choice.ok_or_else(|| Error::internal("a route without a plan"))?;
            let choice = fitting(exec, checked, choice)?;
            launch(exec, checked, choice, to)
        }
    }
}

/// A choice as the device runs it.
fn fitting(exec: &mut Exec, checked: &Checked, choice: Choice) -> Result<Choice> {
    let Asked {
        collective, bytes, ..
    } = checked.asked();
    let on = of_device(exec)?;
    let of = |on: &OnDevice, choice| {
        device::choice(&on.table, (collective, bytes), choice, on.has_ll128)
    };
    let chosen = of(on, choice);
    let entry = crate::algo::find(collective, choice.algorithm);
    let most = entry.map_or(0, |entry| u64::from(entry.most_rounds));
    if most == 0 {
        return Ok(chosen);
    }
    // Every rank counts the same rounds: they follow from sizes that all have alike.
    let order = device_order(exec, checked, chosen);
    let Exec {
        device, members, ..
    } = exec;
    let on = device.as_deref_mut().ok_or_else(no_device)?;
    let planner = |shape: &Shape| crate::algo::plan(shape, &members.nodes);
    match on.engine.rounds(&order, &planner)? <= most {
        true => Ok(chosen),
        false => Ok(of(on, on.table.choose_large(collective, bytes))),
    }
}

fn launch(exec: &mut Exec, checked: &Checked, choice: Choice, to: &LaunchPlace) -> Result<()> {
    let order = device_order(exec, checked, choice);
    let Exec {
        device, members, ..
    } = exec;
    let on = device.as_deref_mut().ok_or_else(no_device)?;
    on.launched = Some(choice);
    let planner = |shape: &Shape| crate::algo::plan(shape, &members.nodes);
    // SAFETY: the promise of `enqueue`.
    on.steps_planned += unsafe { on.engine.launch(&order, &planner, to)? };
    Ok(())
}

fn exchange(exec: &mut Exec, messages: &[DeviceMessage], to: &LaunchPlace) -> Result<()> {
    let on = of_device(exec)?;
    // SAFETY: the promise of `enqueue`.
    on.steps_planned += unsafe { on.engine.exchange(messages, to)? };
    Ok(())
}

fn exchange_parts(exec: &mut Exec, checked: &Checked, to: &LaunchPlace) -> Result<()> {
    let element = checked.call.dtype.size_bytes();
    let mut messages = Vec::new();
    for part in checked.parts.iter().flat_map(|parts| parts.iter()) {
        let bytes = part.count * element;
        match part.deed {
            _ if bytes == 0 => {}
            Deed::Send => messages.push(message(Direction::Send, part.send, bytes, part.peer)),
            Deed::Recv => messages.push(message(Direction::Recv, part.recv, bytes, part.peer)),
            Deed::Copy => {
                let engine = &mut of_device(exec)?.engine;
                // SAFETY: the promise of `enqueue`.
                unsafe { engine.copy(part.send as u64, part.recv as u64, bytes, to)? };
            }
            Deed::Fold => return Err(Error::internal("a fold of blocks was to be refused")),
        }
    }
    exchange(exec, &messages, to)
}

/// Waits until the device has done all that was put on streams.
///
/// # Errors
/// A fault of the device; the error of a wait.
pub(in crate::comm) fn settle_device(
    queue: &Queue,
    exec: &mut Exec,
    call: &'static str,
) -> Result<()> {
    if exec.device.is_none() {
        return Ok(());
    }
    let mut waiter = Waiter::new(queue, (call, None));
    loop {
        // What kernels have handed over is on its way when they have ended.
        let carries = queue.links().is_some_and(Links::is_busy);
        match of_device(exec)?.engine.is_quiet() {
            Ok(true) if !carries => return Ok(()),
            Ok(_) => {
                let paused = waiter.pause(queue.rank as usize);
                let missing = ended::kernels_wait(queue, exec);
                if let Err(error) = missing.map_or(paused, Err) {
                    return Err(queue.fail(exec, error));
                }
            }
            Err(error) => return Err(queue.fail(exec, error)),
        }
    }
}

/// A fault of the device stops the communicator, whenever somebody looks.
pub(in crate::comm) fn look_at_device(queue: &Queue) {
    if queue.device == CommDevice::Host {
        return;
    }
    // Whoever is inside will see it.
    let Some(mut exec) = queue.exec.driver() else {
        return;
    };
    let faulty = exec.device.as_deref_mut().map(|on| on.engine.is_quiet());
    let faulty = faulty.and_then(Result::err);
    if let Some(error) = faulty.or_else(|| ended::kernels_wait(queue, &mut exec)) {
        queue.fail(&mut exec, error);
    }
}

/// The order for a call of the device.
fn device_order(exec: &Exec, checked: &Checked, choice: Choice) -> LaunchOrder {
    LaunchOrder {
        protocol: choice.protocol.of_pairs(),
        placing: Placing::Planned,
        ..order::order(exec, checked, checked.combine(), choice)
    }
}

/// Takes the calls on streams of devices out of a group.
pub(in crate::comm) fn take(members: &mut Vec<Member>) -> Vec<Member> {
    let is_on_device = |member: &Member| device_stream(member).is_some();
    if !members.iter().any(is_on_device) {
        return Vec::new();
    }
    let all = std::mem::take(members);
    let (taken, left) = all.into_iter().partition(is_on_device);
    *members = left;
    taken
}

fn device_stream(member: &Member) -> Option<DeviceStream> {
    member.stream.as_ref().and_then(|stream| stream.device())
}

/// Runs the calls of a group on streams of devices: of each communicator its messages together, and
/// then its collectives in order.
/// The group has so many calls.
pub(in crate::comm) fn run(members: &[Member], group: usize) -> Result<()> {
    let mut queues: Vec<&Arc<Queue>> = Vec::new();
    for Member { queue, .. } in members {
        if !queues.iter().any(|known| Arc::ptr_eq(known, queue)) {
            queues.push(queue);
        }
    }
    // All of a group runs, or nothing.
    for member in members {
        let at = |error: Error| member.queue.tells(error);
        if let Some(stream) = device_stream(member) {
            let admitted = admit(&mut *member.queue.user()?, &member.checked, stream);
            admitted.map_err(at)?;
        }
    }
    for queue in &queues {
        let rank = Rank(queue.rank);
        own_match(queue, members).map_err(|error| error.at(rank))?;
    }
    for queue in queues {
        let own = members
            .iter()
            .filter(|member| Arc::ptr_eq(&member.queue, queue));
        run_part(queue, own.collect(), group)?;
    }
    Ok(())
}

/// Refuses messages of a rank to itself of which one half is missing: they are copies.
fn own_match(queue: &Arc<Queue>, members: &[Member]) -> Result<()> {
    let sizes = |collective: Collective| -> Vec<usize> {
        let is_own = |member: &&Member| {
            let call = &member.checked.call;
            Arc::ptr_eq(&member.queue, queue)
                && (call.collective, call.peer) == (collective, queue.rank)
                && member.checked.bytes > 0
        };
        let own = members.iter().filter(is_own);
        own.map(|member| member.checked.bytes).collect()
    };
    let (sent, received) = (sizes(Collective::Send), sizes(Collective::Recv));
    match sent == received {
        true => Ok(()),
        false => Err(Error::usage(
            format!(
                "in this group rank {} sends itself messages of {sent:?} bytes, and receives of \
                 {received:?} bytes from itself",
                queue.rank
            ),
            "give each Send to the rank itself a Recv of the same size in the same group",
        )),
    }
}

fn run_part(queue: &Queue, members: Vec<&Member>, group: usize) -> Result<()> {
    let mut exec = queue.user()?;
    let context = of_device(&mut exec)?.engine.context();
    let _current = context.enter()?;
    let way = match queue.seen.at_all {
        true => traced::in_group(group) + ON_DEVICE,
        false => String::new(),
    };
    let begun = queue.seen.at_all.then(clock::now);
    let is_message = |member: &&&Member| member.checked.call.collective.is_point_to_point();
    let messages: Vec<&&Member> = members.iter().filter(is_message).collect();
    let all_there = |member: &&&Member| still_there::all_are_there(queue, &member.checked.call);
    let run = messages.iter().try_for_each(all_there);
    let run = run.and_then(|()| run_messages(&mut exec, &messages));
    let run = run.map_err(|error| queue.fail(&mut exec, error));
    for (message, begun) in messages.iter().zip(begun.into_iter().cycle()) {
        let told = told_on_device(&exec, &message.checked);
        traced::told(queue, &message.checked, None, (&way, told), (begun, &run));
    }
    run?;
    for member in members.iter().filter(|member| !is_message(member)) {
        let mut begun = member.checked.clone();
        let number = begin::begin(queue, &mut exec, &mut begun);
        if let Some(stream) = device_stream(member) {
            // Messages may have led the stream into a capture.
            let to = of_device(&mut exec).and_then(|on| on.engine.place(stream));
            let to = to.map_err(|error| queue.fail(&mut exec, error))?;
            put_on_device(queue, &mut exec, &begun, number, (&to, &way))?;
        }
    }
    Ok(())
}

/// Messages on one stream or several: the first one waits for the others, and these for it.
fn run_messages(exec: &mut Exec, members: &[&&Member]) -> Result<()> {
    let mut streams: Vec<DeviceStream> = Vec::new();
    for stream in members.iter().filter_map(|member| device_stream(member)) {
        if !streams.contains(&stream) {
            streams.push(stream);
        }
    }
    let Some((&first, others)) = streams.split_first() else {
        return Ok(());
    };
    let full = members.iter().filter(|member| member.checked.bytes > 0);
    let messages: Vec<DeviceMessage> = full.map(|member| of_call(&member.checked)).collect();
    for &other in others {
        of_device(exec)?.engine.join(other, first)?;
    }
    let to = of_device(exec)?.engine.place(first)?;
    exchange(exec, &messages, &to)?;
    for &other in others {
        of_device(exec)?.engine.join(first, other)?;
    }
    Ok(())
}
