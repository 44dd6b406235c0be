//! Rules in which the simulators differ.

/// Order of simultaneous requests for one device or port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ties {
    /// Requests are in order of their index: that of the operator in the queue of a device, that of the transfer in the
    /// queue of a port.
    Index,
    /// Requests are in the order in which they were made.
    Request,
}

/// Order of everything that can happen at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instant {
    /// Everything that ends, then operators start, then transfers.
    OperatorsFirst,
    /// Everything that ends, then transfers start, then operators.
    TransfersFirst,
    /// Everything takes effect one by one in the order in which it was scheduled, as in an event queue with a number for
    /// each event. An activity that ends schedules what follows: an operator, that its device is free and then that its
    /// outputs are sent; a transfer, that its readers have it; the last input of an operator, that it asks for its
    /// device; a device that is free or asked for, that the first of its queue starts.
    InTurn,
}

/// A configuration of the engine. The other differences between simulators (ports, gaps, the unit of a
/// transfer) are in the [`Flow`](super::Flow) itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Order of simultaneous requests.
    pub ties: Ties,
    /// Order of events at one instant.
    pub instant: Instant,
}

impl Rules {
    /// The project's own rules, in which every device has ports.
    pub const PORTS: Rules = Rules { ties: Ties::Index, instant: Instant::OperatorsFirst };

    /// The published simulator of Placeto.
    pub const OUT_BUS: Rules = Rules { ties: Ties::Request, instant: Instant::TransfersFirst };

    /// The published simulator of GiPH.
    pub const CONTENTION_FREE: Rules = Rules { ties: Ties::Request, instant: Instant::InTurn };
}
