//! The shape of a graph before it costs anything: what every operator is, and who reads what it makes.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// What an operator is, as coarsely as a cost needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::train) enum Role {
    /// Brings data in and computes nothing.
    Input,
    /// Looks rows up in a large table.
    Embedding,
    /// A product with parameters: dense layers, convolutions, cells of recurrent networks.
    Product,
    /// A product of two activations.
    Attention,
    /// Normalises.
    Norm,
    /// Element by element.
    Pointwise,
    /// Adds or joins what several operators made.
    Combine,
}

impl Role {
    /// What the kind of an operator document says.
    pub(in crate::train) fn kind(self) -> &'static str {
        match self {
            Role::Input => "input",
            Role::Embedding => "embedding",
            Role::Product => "matmul",
            Role::Attention => "attention",
            Role::Norm => "norm",
            Role::Pointwise => "activation",
            Role::Combine => "add",
        }
    }

    /// Time relative to that of a product, where roles count.
    pub(in crate::train) fn work(self) -> f64 {
        match self {
            Role::Input => 0.0,
            Role::Product => 1.0,
            Role::Attention => 0.6,
            Role::Embedding | Role::Norm => 0.1,
            Role::Pointwise | Role::Combine => 0.05,
        }
    }

    /// Parameters relative to those of a product.
    pub(in crate::train) fn parameters(self) -> f64 {
        match self {
            Role::Embedding => 8.0,
            Role::Product => 1.0,
            Role::Norm => 1e-3,
            Role::Input | Role::Attention | Role::Pointwise | Role::Combine => 0.0,
        }
    }

    /// Whether its gradients need what it read.
    pub(in crate::train) fn keeps_inputs(self) -> bool {
        matches!(self, Role::Embedding | Role::Product | Role::Attention | Role::Norm)
    }
}

/// Operators and the edges between them. An edge goes from a lower to a higher index, so that no shape has a cycle.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::train) struct Shape {
    pub(in crate::train) roles: Vec<Role>,
    /// By operator, those that read what it makes, without repetition.
    pub(in crate::train) readers: Vec<Vec<usize>>,
}

impl Shape {
    /// Operators so far.
    pub(super) fn len(&self) -> usize {
        self.roles.len()
    }

    /// Adds an operator that reads what others make, and says which it is.
    pub(super) fn add(&mut self, role: Role, reads: &[usize]) -> usize {
        let at = self.len();
        self.roles.push(role);
        self.readers.push(Vec::new());
        for &from in reads {
            self.join(from, at);
        }
        at
    }

    /// Adds operators one after the other, the first of which reads what some others make; says which is the last.
    pub(super) fn chain(&mut self, roles: &[Role], reads: &[usize]) -> usize {
        let (first, others) = roles.split_first().expect("a chain has an operator");
        let first = self.add(*first, reads);
        others.iter().fold(first, |last, &role| self.add(role, &[last]))
    }

    /// Adds an operator of any role, for graphs whose structure says nothing of roles.
    pub(super) fn add_any(&mut self, rng: &mut ChaCha8Rng, reads: &[usize]) -> usize {
        const ROLES: [Role; 8] = [
            Role::Product,
            Role::Product,
            Role::Product,
            Role::Pointwise,
            Role::Pointwise,
            Role::Combine,
            Role::Norm,
            Role::Attention,
        ];
        let role = ROLES[rng.random_range(0..ROLES.len())];
        self.add(role, reads)
    }

    /// Adds an edge, unless it is there.
    pub(super) fn join(&mut self, from: usize, to: usize) {
        assert!(from < to, "an edge goes to a later operator");
        if !self.readers[from].contains(&to) {
            self.readers[from].push(to);
        }
    }

    /// The same graph with every edge turned round.
    pub(super) fn reversed(&self) -> Shape {
        let last = self.len().saturating_sub(1);
        let mut turned = Shape {
            roles: self.roles.iter().rev().copied().collect(),
            readers: vec![Vec::new(); self.len()],
        };
        for (from, readers) in self.readers.iter().enumerate() {
            for &to in readers {
                turned.join(last - to, last - from);
            }
        }
        turned
    }
}
