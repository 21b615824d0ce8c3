//! The devices of a communicator: what its ranks tell each other of them, and the engine that is
//! made of that.
//!
//! Either all ranks are on devices or none is. What a rank shows is a card: which device, and
//! whether lines of 128 bytes stay whole on it.

pub(in crate::comm) mod card;
pub(in crate::comm) mod carrier;

use self::card::DeviceCard;
use self::carrier::StageCarrier;
use super::party::Party;
use crate::base::{Error, Rank, Result};
use crate::comm::CommDevice;
use crate::comm::failing::stood::Stood;
use crate::comm::network::Network;
use crate::comm::owned::OnDevice;
use crate::config::{Origin, Settings};
use crate::cuda::{Context, DeviceAttribute, DeviceKernels, HostMapping};
use crate::exec::cuda::blocks::{self, BlockDemand, MOST_BLOCKS};
use crate::exec::cuda::{BlockShare, CudaEngine, CudaSetup, DeviceSeat, fit, names};
use crate::plan::Protocol;
use crate::proxy::net::SPARE_BYTES;
use crate::proxy::service::{self, Address, Published};
use crate::topo;
use crate::transport::gpu::{Book, BookDevice, DevicePlaces, RankWiring, Stages};
use crate::transport::segment::{Key, Nonce};
use crate::tune::{Inputs, Table, device};
use crate::wire::carrier::DeviceCarrier;
use crate::wire::gpu::SLOTS;
use std::any::Any;
use std::sync::Arc;

/// From this architecture on a warp's store of 128 bytes arrives whole.
const LL128_ARCHITECTURE: u32 = 70;
/// Channels where nobody sets another number.
const CHANNELS: u32 = 8;
/// Bytes of a slot of LL and of LL128.
const LL_SLOT: usize = 16 << 10;
const LL128_SLOT: usize = 32 << 10;
/// The memory of a Simple connection where nobody sets another size.
const BUFFER_BYTES: usize = 512 << 10;

/// Describes this rank's device for the others. `None` if its buffers lie in host memory.
///
/// # Errors
/// The device cannot be used.
pub(in crate::comm) fn card(device: CommDevice, settings: &Settings) -> Result<Option<DeviceCard>> {
    let CommDevice::Cuda(number) = device else {
        return Ok(None);
    };
    let context = Context::of(number)?;
    let kernels = DeviceKernels::load(&context, &settings.kernels()?, &names::all())?;
    Ok(Some(DeviceCard {
        number,
        uuid: context.uuid(),
        architecture: architecture(&context)?,
        resident: kernels.resident_blocks(threads(settings))?,
    }))
}

/// Ranks on a card's device.
fn sharing(cards: &[DeviceCard], card: &DeviceCard) -> u32 {
    cards.iter().filter(|other| other.uuid == card.uuid).count() as u32
}

/// Blocks that each rank could have on its device if there were no other communicator: from this
/// the channels follow, which all ranks have alike. What a rank has is its share.
fn alone(cards: &[DeviceCard]) -> Result<u32> {
    let parts = cards.iter().map(|card| {
        let sharing = sharing(cards, card);
        (card.resident / sharing, sharing, card)
    });
    let least = parts.min_by_key(|(blocks, ..)| *blocks);
    match least {
        Some((0, sharing, card)) => Err(Error::usage(
            format!(
                "{sharing} ranks share CUDA device {}, which runs {} blocks at a time, and each \
                 rank needs one",
                card.number, card.resident
            ),
            "use fewer ranks on the device, or fewer threads a block (KOLO_NTHREADS)",
        )),
        Some((blocks, ..)) => Ok(blocks.min(MOST_BLOCKS)),
        None => Err(Error::internal("a communicator without devices")),
    }
}

/// The cards of all ranks, if they are on devices.
///
/// # Errors
/// On every rank: some are on the host.
pub(in crate::comm) fn agree(cards: &[Option<DeviceCard>]) -> Result<Option<Vec<DeviceCard>>> {
    if cards.iter().all(Option::is_none) {
        return Ok(None);
    }
    if let Some(host) = cards.iter().position(Option::is_none) {
        let on_device = cards.iter().position(Option::is_some).unwrap_or(0);
        return Err(Error::usage(
            format!("rank {host} is on the host, and rank {on_device} on a CUDA device"),
            "make a communicator with a device on every rank, or on none",
        )
        .with_peer(Rank(host as u32)));
    }
    Ok(Some(cards.iter().flatten().copied().collect()))
}

/// Makes the engine and the table for calls on streams, if the ranks are on devices. `services` are
/// those of the ranks' processes. All ranks call it.
///
/// # Errors
/// The driver refuses; the kernels are not there; a rank has gone.
pub(in crate::comm) fn make(
    party: &Party,
    (cards, network): (Option<&[DeviceCard]>, Option<&Network>),
    services: &[Address],
    inputs: &Inputs,
) -> Result<Option<Box<OnDevice>>> {
    let on = cards.map(|cards| on_device((party, network), (cards, services), inputs));
    on.transpose()
}

/// Parts that a rank makes by itself, before it tries to reach the devices of the others.
struct BegunDevice {
    context: Arc<Context>,
    kernels: DeviceKernels,
    share: Arc<BlockShare>,
    channels: (u16, u16),
    places: DevicePlaces,
    abort: (u64, Arc<dyn Any + Send + Sync>),
    book: Arc<Book>,
    promised: Vec<Published>,
    seat: Option<DeviceSeat>,
}

fn on_device(
    (party, network): (&Party, Option<&Network>),
    (cards, services): (&[DeviceCard], &[Address]),
    inputs: &Inputs,
) -> Result<Box<OnDevice>> {
    let begun = together(party, begin(party, (cards, services)))?;
    let carrier = together(party, carrier(party, network))?;
    let (places, channels) = (begun.places, begun.channels);
    try_reach(party, &begun.book)?;
    let rank = party.bootstrap.rank().0;
    let wiring = RankWiring::new(
        begun.book,
        rank,
        party.stages.clone(),
        Box::new(begun.promised),
    );
    let are_all_near = wiring.are_all_near();
    let engine = CudaEngine::new(CudaSetup {
        rank,
        nranks: places.nranks,
        context: begun.context,
        kernels: begun.kernels,
        wiring: Box::new(wiring),
        seat: begun.seat,
        carrier: carrier.clone().map(|it| it as Arc<dyn DeviceCarrier>),
        abort: begun.abort,
        share: begun.share,
        threads: threads(party.settings),
        slot_bytes: places.slot_bytes,
        channels: channels.1,
    })?;
    let inputs = table_inputs(inputs, channels, places.slot_bytes);
    let ll128 = |card: &DeviceCard| card.architecture >= LL128_ARCHITECTURE;
    Ok(Box::new(OnDevice {
        engine,
        table: Table::remembered(inputs),
        // Memory of the host takes the parts of a line one by one.
        has_ll128: are_all_near && cards.iter().all(ll128),
        carrier,
        steps_planned: 0,
        launched: None,
        stalled: Stood::default(),
        passes: 0,
    }))
}

/// Least and most channels, and the places that follow.
fn sizes(settings: &Settings, cards: &[DeviceCard]) -> Result<((u16, u16), DevicePlaces)> {
    let channels = channels(settings, alone(cards)?);
    let places = DevicePlaces {
        nranks: cards.len() as u32,
        channels: channels.1,
        slot_bytes: slots(settings),
    };
    Ok((channels, places))
}

/// Where connections to other nodes lie, if the ranks are on devices of several nodes.
///
/// # Errors
/// On every rank: more ranks on a device than it runs. No memory.
pub(in crate::comm) fn stages(
    settings: &Settings,
    cards: Option<&[DeviceCard]>,
    is_one_node: bool,
) -> Result<Option<Arc<Stages>>> {
    let stages = |cards| {
        let (_, places) = sizes(settings, cards)?;
        let payload = places.slot_bytes[Protocol::Simple as usize];
        let stages = Stages::new(places, (payload + SPARE_BYTES, payload))?;
        Ok(Arc::new(stages))
    };
    cards.filter(|_| !is_one_node).map(stages).transpose()
}

/// Who moves what this rank's device sends to other nodes.
fn carrier(party: &Party, network: Option<&Network>) -> Result<Option<Arc<StageCarrier>>> {
    let (Some(network), Some(stages)) = (network, &party.stages) else {
        return Ok(None);
    };
    stages.prepare()?;
    let on_host = party.node.layout().channels;
    let carrier = StageCarrier::new((network, stages), (party.settings, on_host))?;
    Ok(Some(Arc::new(carrier)))
}

fn begin(party: &Party, (cards, services): (&[DeviceCard], &[Address])) -> Result<BegunDevice> {
    let settings = party.settings;
    let context = Context::of(cards[party.bootstrap.rank().index()].number)?;
    let kernels = DeviceKernels::load(&context, &settings.kernels()?, &names::all())?;
    let (channels, places) = sizes(settings, cards)?;
    let record = std::ptr::from_ref(party.node.abort_record()).cast::<u8>();
    // SAFETY: what keeps the mapping keeps the memory of the node longer.
    let mapping = unsafe { HostMapping::of(record, size_of::<u64>())? };
    let abort = mapping.address_of(record)?;
    let (book, promised) = promise(party, (cards, services), places)?;
    Ok(BegunDevice {
        kernels,
        share: Arc::new(share(party, cards, channels.1)),
        channels,
        places,
        // The mapping goes before the memory.
        abort: (abort, Arc::new((mapping, party.node.clone()))),
        seat: seat(party, (&context, &book)),
        context,
        book,
        promised,
    })
}

/// This rank's blocks.
fn share(party: &Party, cards: &[DeviceCard], channels: u16) -> BlockShare {
    let card = &cards[party.bootstrap.rank().index()];
    BlockShare::take(&BlockDemand {
        device: card.number,
        name: party.nonce,
        resident: card.resident,
        ranks: sharing(cards, card),
        useful: blocks::useful(cards.len() as u32, channels),
        least: blocks::least(cards.len() as u32, channels),
    })
}

/// Where a rank notes its streams that shares its device with others of this process.
fn seat(party: &Party, (context, book): (&Arc<Context>, &Book)) -> Option<DeviceSeat> {
    let me = party.bootstrap.rank().0;
    let is_shared = book.sharers(context) > 1;
    is_shared.then(|| DeviceSeat::take(context, party.nonce, me))
}

/// Returns `made` if all ranks have made theirs, else an error on every rank. A rank that gave up
/// in silence would let the others wait, because messages of a parent do not end with it.
fn together<T>(party: &Party, made: Result<T>) -> Result<T> {
    let shown = party.bootstrap.all_gather(&[u8::from(made.is_ok())])?;
    let made = made?;
    match shown.iter().position(|shown| *shown != [1]) {
        None => Ok(made),
        Some(failed) => Err(Error::remote(
            Rank(failed as u32),
            format!("rank {failed} cannot use its CUDA device"),
            "see the message of that rank",
        )),
    }
}

/// Makes this process's book of the devices of all ranks, and publishes the memory of this rank
/// that other processes may ask for.
fn promise(
    party: &Party,
    (cards, services): (&[DeviceCard], &[Address]),
    places: DevicePlaces,
) -> Result<(Arc<Book>, Vec<Published>)> {
    let me = party.bootstrap.rank();
    let mates = topo::local_ranks(me, party.places);
    let mut from = vec![None; cards.len()];
    for (mate, service) in mates.iter().zip(services) {
        from[mate.index()] = Some(*service);
    }
    let own = from[me.index()];
    let node_of = topo::nodes(party.places).node_of;
    let device = |((card, service), node): ((&DeviceCard, &Option<Address>), &u32)| {
        let is_here = service.is_some() && *service == own;
        let context = is_here.then(|| Context::of(card.number)).transpose()?;
        let node = *node;
        Ok(BookDevice { context, node })
    };
    let devices = cards.iter().zip(&from).zip(&node_of).map(device);
    let devices: Vec<BookDevice> = devices.collect::<Result<_>>()?;
    let is_alone = services.iter().all(|service| Some(*service) == own);
    let fetch = move |rank: u32, key: Key| {
        let service = from[rank as usize];
        let service = service.ok_or_else(|| Error::internal("memory of another node"))?;
        let fetched = service::get()?.fetch(&service, key);
        fetched.map_err(|cause| {
            let what = format!("cannot get at the memory of rank {rank}'s device");
            let remedy = "see the messages of that rank: its device may have no memory left";
            Error::system(what, &cause, remedy)
        })
    };
    let name = (Nonce(party.nonce), node_of[me.index()]);
    let book = Book::of(name, places, devices, Box::new(fetch));
    let mut published = Vec::new();
    if !is_alone {
        let service = service::get()?;
        for (key, maker) in book.promises(me.0) {
            let make = move || {
                let made = maker.make();
                let told = |error: &Error| tracing::warn!("kolo: a peer asks in vain: {error}");
                made.inspect_err(told).ok()
            };
            published.push(service.promise(key, Arc::new(make)));
        }
    }
    Ok((book, published))
}

/// The ranks try whose devices reach each other's: nobody asks before everybody has promised.
fn try_reach(party: &Party, book: &Book) -> Result<()> {
    let (me, nranks) = (party.bootstrap.rank().0, party.bootstrap.nranks());
    let reaches = (0..nranks).map(|other| book.reaches(me, other));
    let reaches = reaches.map(|it| it.map(u8::from)).collect();
    let reaches: Vec<u8> = together(party, reaches)?;
    let rows = party.bootstrap.all_gather(&reaches)?;
    let near = near(&rows, nranks as usize)?;
    warn_of_far(party, (book, &near));
    book.set_near(near);
    Ok(())
}

/// Which two devices reach each other, from what all ranks have tried.
fn near(rows: &[Vec<u8>], nranks: usize) -> Result<Vec<bool>> {
    if rows.len() != nranks || rows.iter().any(|row| row.len() != nranks) {
        return Err(Error::internal(
            "a rank tells of other devices than there are",
        ));
    }
    let both = |at: usize| {
        let (one, other) = (at / nranks, at % nranks);
        rows[one][other] != 0 && rows[other][one] != 0
    };
    Ok((0..nranks * nranks).map(both).collect())
}

/// Says once which devices do not reach each other.
fn warn_of_far(party: &Party, (book, near): (&Book, &[bool])) {
    if party.bootstrap.rank() != Rank(0) {
        return;
    }
    let nranks = party.places.len();
    let is_far = |&at: &usize| {
        let (one, other) = ((at / nranks) as u32, (at % nranks) as u32);
        !near[at] && !book.is_remote(one, other)
    };
    let Some(at) = (0..near.len()).find(is_far) else {
        return;
    };
    tracing::warn!(
        "kolo: the devices of ranks {} and {} do not reach each other's memory, so their data \
         passes through memory of the host, which is slower. Where Slurm gives each task only its \
         own device, let all tasks of a node see all of them: use --gpu-bind=none in place of \
         --gpus-per-task, and choose the device by SLURM_LOCALID",
        at / nranks,
        at % nranks
    );
}

fn architecture(context: &Context) -> Result<u32> {
    let major = DeviceAttribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
    let minor = DeviceAttribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR;
    let (major, minor) = (context.attribute(major)?, context.attribute(minor)?);
    Ok((10 * major + minor).max(0) as u32)
}

/// Threads of a block.
fn threads(settings: &Settings) -> u32 {
    let wanted = settings.nthreads();
    wanted.next_multiple_of(32)
}

/// Least and most channels: each could have a block to itself.
fn channels(settings: &Settings, blocks: u32) -> (u16, u16) {
    let least = settings.min_nchannels();
    let most = match is_set(settings, "max_nchannels") {
        true => settings.max_nchannels(),
        false => CHANNELS,
    };
    let most = most.max(least).min(blocks);
    (least.min(most) as u16, most as u16)
}

/// The inputs of the table of devices.
fn table_inputs(host: &Inputs, channels: (u16, u16), slot_bytes: [usize; 3]) -> Inputs {
    let eager = fit::payload(Protocol::Ll, slot_bytes[Protocol::Ll as usize]);
    device::inputs(host, channels, eager)
}

/// The inputs of the table, and bytes of a slot by protocol, of devices that are only described:
/// they have blocks enough.
pub(super) fn imagined(settings: &Settings, host: &Inputs) -> (Inputs, [usize; 3]) {
    let slots = slots(settings);
    let channels = channels(settings, MOST_BLOCKS);
    (table_inputs(host, channels, slots), slots)
}

/// Bytes of a slot, by protocol.
fn slots(settings: &Settings) -> [usize; 3] {
    let buffer = match is_set(settings, "buffsize") {
        true => settings.buffsize() as usize,
        false => BUFFER_BYTES,
    };
    let simple = (buffer / SLOTS as usize).next_multiple_of(4096);
    let mut slots = [0; 3];
    slots[Protocol::Simple as usize] = simple;
    slots[Protocol::Ll as usize] = LL_SLOT.min(simple);
    slots[Protocol::Ll128 as usize] = LL128_SLOT.min(simple);
    slots
}

/// Whether somebody has set an option.
fn is_set(settings: &Settings, key: &str) -> bool {
    let entry = settings.entry(key);
    entry.is_some_and(|entry| entry.source.origin != Origin::BuiltIn)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_card(number: u32) -> DeviceCard {
        DeviceCard {
            number,
            uuid: [number as u8; 16],
            architecture: 90,
            resident: 16,
        }
    }

    #[test]
    fn ranks_share_the_blocks_of_their_device() {
        let of = |numbers: &[u32]| {
            let cards: Vec<DeviceCard> = numbers.iter().map(|&number| a_card(number)).collect();
            alone(&cards)
        };
        assert_eq!(of(&[0, 1, 2]).expect("one each"), 16);
        assert_eq!(of(&[0, 1, 1, 1]).expect("three on one"), 5);
        let error = of(&[7; 17]).expect_err("too many");
        let text = error.to_string();
        assert!(text.contains("17 ranks share CUDA device 7") && text.contains("KOLO_NTHREADS"));
    }

    #[test]
    fn all_ranks_are_on_devices_or_none() {
        assert_eq!(agree(&[None; 3]).expect("the host"), None);
        let all = [0, 1, 2].map(|number| Some(a_card(number)));
        assert_eq!(agree(&all).expect("devices").map(|it| it.len()), Some(3));
        let error = agree(&[all[0], None, all[2]]).expect_err("mixed");
        let text = error.to_string();
        assert!(
            text.contains("rank 1 is on the host") && text.contains("rank 0 on"),
            "{text}"
        );
    }

    #[test]
    fn devices_are_near_where_both_say_so() {
        let rows = [vec![1, 1, 0], vec![1, 1, 1], vec![1, 0, 1]];
        let near = near(&rows, 3).expect("rows");
        let expected = [true, true, false, true, true, false, false, false, true];
        assert_eq!(near, expected);
        assert!(super::near(&rows[..2], 3).is_err());
    }
}
