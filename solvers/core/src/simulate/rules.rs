//! What the simulators differ in.

/// Who is first among those that ask for one thing at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ties {
    /// The lowest index: of the operator in the queue of a device, of the transfer in the line of a port.
    Index,
    /// Who asked first.
    Request,
}

/// What comes first of all that could happen at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instant {
    /// All that ends, then operators start, then transfers.
    OperatorsFirst,
    /// All that ends, then transfers start, then operators.
    TransfersFirst,
    /// Events take effect one by one in the order in which they were foreseen, and what an event lets start
    /// starts with it.
    AtOnce,
}

/// A configuration of the engine. What else tells simulators apart (ports, gaps, what counts as one transfer)
/// is said by the [`Flow`](super::Flow) itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Who is first of those that ask at one time.
    pub ties: Ties,
    /// What is first at one time.
    pub instant: Instant,
}

impl Rules {
    /// The project's own rules: what a step takes where every device has ports.
    pub const PORTS: Rules = Rules { ties: Ties::Index, instant: Instant::OperatorsFirst };

    /// The published simulator of Placeto.
    pub const OUT_BUS: Rules = Rules { ties: Ties::Request, instant: Instant::TransfersFirst };

    /// The published simulator of GiPH.
    pub const CONTENTION_FREE: Rules = Rules { ties: Ties::Request, instant: Instant::AtOnce };
}
