//! One end of a connection, as a plan that is bound names it.

/// One end of a connection, resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Index into the senders, and the reading rank.
    Send(usize, usize),
    /// Index into the receivers, and the writing rank.
    Recv(usize, usize),
    /// The own fan.
    FanSend,
    /// The fan of this rank.
    FanRecv(usize),
    /// The own cast on this channel.
    CastSend(usize),
    /// Index into the casts that are read, and the writing rank.
    CastRecv(usize, usize),
    /// Index into the senders of flagged lines, and the reading rank.
    LinesSend(usize, usize),
    /// Index into the receivers of flagged lines, and the writing rank.
    LinesRecv(usize, usize),
}
