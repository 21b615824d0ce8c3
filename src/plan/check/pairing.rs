//! Pairing: what the k-th send on a connection meets is the k-th receive, whatever the timing.

use super::net::{Block, Event, Item, Net, Wire};
use super::report::{Counterexample, link_text};

/// Adds what all ranks run in one call to the network, where every send of a round meets a receive
/// that expects just this. Returns the number of the block.
///
/// # Errors
/// A fault of structure, or the first token that meets another receive or none.
pub(super) fn add<'a>(net: &mut Net<'a>, items: &[Item<'a>]) -> Result<usize, Counterexample> {
    let number = net.add_unpaired(items)?;
    pair(net, &net.blocks[number])?;
    Ok(number)
}

fn pair(net: &Net, block: &Block) -> Result<(), Counterexample> {
    for (number, wire) in net.wires.iter().enumerate() {
        let sends = block.sends.get(number as u32);
        for reader in wire.first_reader..wire.first_reader + wire.readers {
            let receives = block.receives.get(reader);
            for (&send, &receive) in sends.iter().zip(receives) {
                meet(net, wire, send, receive)?;
            }
            let rank = net.reader_rank(wire, reader);
            let (sent, received) = (sends.len(), receives.len());
            if sent > received {
                let message = format!(
                    "sends {sent} tokens a round on {}, but rank {rank} receives {received}; \
                         this one is never received",
                    link_text(wire.link)
                );
                return Err(net.fault(sends[received], message));
            }
            if received > sent {
                let message = format!(
                    "receives {received} tokens a round on {}, but rank {} sends {sent}; \
                         this one never comes",
                    link_text(wire.link),
                    wire.link.writer()
                );
                return Err(net.fault(receives[sent], message));
            }
        }
    }
    Ok(())
}

fn meet(net: &Net, wire: &Wire, send: u32, receive: u32) -> Result<(), Counterexample> {
    let (from, to) = (&net.events[send as usize], &net.events[receive as usize]);
    let (writer, reader) = (&net.lanes[from.lane as usize], &net.lanes[to.lane as usize]);
    let rounds = |event: &Event| net.instance_of(event).rounds;
    let fault = if from.carries != to.carries {
        let holds = |event: &Event| match event.pieces {
            0 => "a token without payload".to_string(),
            1 => format!("chunk {}", event.chunk),
            _ => net.contents.text(event.carries),
        };
        format!("expects {} but gets {}", holds(to), holds(from))
    } else if writer.channel != reader.channel {
        format!(
            "reads with the window of channel {} what was written with that of channel {}",
            reader.channel, writer.channel
        )
    } else if rounds(from) != rounds(to) {
        format!("has {} rounds, but the sender {}", rounds(to), rounds(from))
    } else {
        return Ok(());
    };
    let message = format!(
        "{fault} on {} from {}",
        link_text(wire.link),
        net.place(send)
    );
    Err(net.fault(receive, message))
}
