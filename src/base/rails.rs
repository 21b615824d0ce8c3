//! Which of several equal ways between nodes a connection takes.
//!
//! **Problem.** A node has several ports, and a rank may use each of them. All should carry the
//! same, in calls of one channel and of many, of few ranks and of many. Both ends must come to the
//! same choice, and nobody may ask.
//!
//! **Idea.** Connections take turns by two numbers that both ends know: how many ranks before the
//! sender have the same ports, and the channel. So what the ranks of a node send at once is spread.
//! (The sum of both ends' numbers would leave out every second port where each rank talks to those
//! who stand where it stands on their nodes, as in most large calls.) Channels begin far apart, so
//! that few ranks reach all ports, and what one rank sends to many is spread by its channels
//! ([`crate::plan::Placing`]).

/// Which of `count` ports an end takes for what the rank with this turn sends.
pub fn port(sender: usize, channel: usize, count: usize) -> Option<usize> {
    (sender + spread(channel, count)).checked_rem(count)
}

/// How far from the first of `count` ports a channel begins: as many channels as ports reach each
/// once.
///
/// The digits of the channel's number, to the base 2, are read from behind (J. G. van der Corput,
/// 1935).
fn spread(channel: usize, count: usize) -> usize {
    let places = count.next_power_of_two();
    let reversed = |at: usize| match places.trailing_zeros() {
        0 => 0,
        bits => at.reverse_bits() >> (usize::BITS - bits),
    };
    let mut inside = (0..places).map(reversed).filter(|&at| at < count);
    inside
        .nth(channel.checked_rem(count).unwrap_or(0))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_carry_the_same() {
        assert_eq!(port(1, 0, 0), None);
        for count in 1..=12 {
            for channels in [1, 2, 4, count] {
                for ranks in (1..=24).filter(|ranks| ranks * channels % count == 0) {
                    let mut loads = vec![0; count];
                    for (rank, channel) in
                        (0..ranks).flat_map(|rank| (0..channels).map(move |it| (rank, it)))
                    {
                        loads[port(rank, channel, count).unwrap()] += 1;
                    }
                    let even = loads.iter().all(|&load| load == ranks * channels / count);
                    // Channels that are no divisor of the ports do not lie evenly between them.
                    let divides = ranks % count == 0 || channels % count == 0;
                    let powers = count.is_power_of_two() && ranks.is_power_of_two();
                    assert!(
                        even || !(divides || powers),
                        "{ranks} ranks, {channels} channels: {loads:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn channels_begin_far_apart() {
        let begins = |count: usize| (0..count).map(|at| spread(at, count)).collect::<Vec<_>>();
        assert_eq!(begins(8), [0, 4, 2, 6, 1, 5, 3, 7]);
        assert_eq!(begins(3), [0, 2, 1]);
        assert_eq!(begins(1), [0]);
    }
}
