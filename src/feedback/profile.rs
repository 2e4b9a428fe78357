//! What is known about a vendor beyond what its responses say.

/// What is known about a vendor: cheap to clone and to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Profile {
    name: &'static str,
}

impl Profile {
    /// Nothing is known: only what every response may say is read.
    pub const NONE: Self = Self { name: "none" };

    /// The name by which [`Profile::by_name`] finds it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::NONE
    }
}
