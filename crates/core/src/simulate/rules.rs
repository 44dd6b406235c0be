//! Rules that differ between the simulators.

/// Order of simultaneous requests for the same device or port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ties {
    /// Requests are ordered by index: that of the operator in the queue of a device, that of the transfer in the queue
    /// of a port.
    Index,
    /// Requests are ordered as they were made.
    Request,
}

/// Order of everything that can happen at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instant {
    /// First everything that ends takes effect, then operators start, then transfers.
    OperatorsFirst,
    /// First everything that ends takes effect, then transfers start, then operators.
    TransfersFirst,
    /// Everything takes effect one by one in the order in which it was scheduled, as in an event queue that numbers its
    /// events. An activity that ends schedules its consequences. The end of an operator schedules that its device is
    /// free and then that its outputs are sent; the end of a transfer, that its readers have the tensor; the last input
    /// of an operator, that the operator requests its device; a device that is free or requested, that the first
    /// operator in its queue starts.
    InTurn,
}

/// A configuration of the engine. All other differences between the simulators (ports, gaps, the unit of a transfer)
/// are expressed in the [`Flow`](super::Flow) itself.
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
