//! Everything in a node that a type does not take, at once.

use tree::{Misfit, Node};

/// How many misfits are told of one node.
const MOST_MISFITS: usize = 100;

/// Reads a type from a node, and all misfits that were found. Serde stops at the first misfit, so
/// what does not fit is taken out and the rest read again, until no more can be told.
///
/// With misfits, what was read is what is left without them; `None` if that is nothing.
pub(crate) fn read<T>(
    node: &Node,
    of: impl Fn(&Node) -> Result<T, Misfit>,
) -> (Option<T>, Vec<Misfit>) {
    let mut rest = node.clone();
    let mut misfits: Vec<Misfit> = Vec::new();
    for _ in 0..MOST_MISFITS {
        let misfit = match of(&rest) {
            Ok(read) => return (Some(read), misfits),
            Err(misfit) => misfit,
        };
        let path = misfit.path();
        // A field that was taken out is not missing.
        if misfits.is_empty() || !is_missing(&misfit, node) {
            misfits.push(misfit);
        }
        if !rest.remove(&path) {
            break;
        }
    }
    (None, misfits)
}

/// Whether a field is said to be missing that was there.
fn is_missing(misfit: &Misfit, node: &Node) -> bool {
    let field = misfit.message.strip_prefix("missing field `");
    field
        .and_then(|it| it.strip_suffix('`'))
        .is_some_and(|field| node.clone().remove(&format!("{}/{field}", misfit.path())))
}
