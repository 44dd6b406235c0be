//! The shape of a graph before pricing: the role of every operator, and the readers of its output.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Role of an operator, as coarse as pricing needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A source of data that computes nothing.
    Input,
    /// A lookup of rows in a large table.
    Embedding,
    /// A product with parameters: a dense layer, a convolution, a cell of a recurrent network.
    Product,
    /// A product of two activations.
    Attention,
    /// Normalisation.
    Norm,
    /// An element-wise operation.
    Pointwise,
    /// A sum or concatenation of several inputs.
    Combine,
}

impl Role {
    /// The operators of a layer of a convolutional network.
    pub(super) fn layer(has_norm: bool) -> &'static [Role] {
        match has_norm {
            true => &[Role::Product, Role::Norm, Role::Pointwise],
            false => &[Role::Product, Role::Pointwise],
        }
    }

    /// The `kind` of operator documents of the role.
    pub(crate) fn kind(self) -> &'static str {
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

    /// Time relative to that of a product, if roles count.
    pub(crate) fn work(self) -> f64 {
        match self {
            Role::Input => 0.0,
            Role::Product => 1.0,
            Role::Attention => 0.6,
            Role::Embedding | Role::Norm => 0.1,
            Role::Pointwise | Role::Combine => 0.05,
        }
    }

    /// Size of the parameters relative to that of a product.
    pub(crate) fn parameters(self) -> f64 {
        match self {
            Role::Embedding => 8.0,
            Role::Product => 1.0,
            Role::Norm => 1e-3,
            Role::Input | Role::Attention | Role::Pointwise | Role::Combine => 0.0,
        }
    }

    /// Whether gradients of operators of the role need their inputs.
    pub(crate) fn keeps_inputs(self) -> bool {
        matches!(self, Role::Embedding | Role::Product | Role::Attention | Role::Norm)
    }
}

/// Operators and the edges between them. Edges go from lower to higher indices, so a shape has no cycle.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) roles: Vec<Role>,
    /// By operator: the operators that read its output, without repetition.
    pub(crate) readers: Vec<Vec<usize>>,
}

impl Shape {
    /// Number of operators so far.
    pub(super) fn len(&self) -> usize {
        self.roles.len()
    }

    /// Adds an operator that reads the outputs of others, and returns its index.
    pub(super) fn add(&mut self, role: Role, reads: &[usize]) -> usize {
        let index = self.len();
        self.roles.push(role);
        self.readers.push(Vec::new());
        for &from in reads {
            self.join(from, index);
        }
        index
    }

    /// Adds operators in series, the first of which reads the given outputs; returns the last.
    pub(super) fn chain(&mut self, roles: &[Role], reads: &[usize]) -> usize {
        let (first, others) = roles.split_first().expect("a chain has an operator");
        let first = self.add(*first, reads);
        others.iter().fold(first, |last, &role| self.add(role, &[last]))
    }

    /// Adds an operator with a random role, for structures that do not determine roles.
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

    /// Adds an edge unless it exists.
    pub(super) fn join(&mut self, from: usize, to: usize) {
        assert!(from < to, "an edge goes to a later operator");
        if !self.readers[from].contains(&to) {
            self.readers[from].push(to);
        }
    }

    /// The graph with every edge reversed.
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
