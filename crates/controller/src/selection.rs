//! Which objects of a shelf somebody asks for.

use logical::objects::Selector;
use store::Entry;

use crate::catalog;
use crate::fields::Field;
use crate::labels;

/// Objects by their labels and fields.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Their labels.
    pub labels: Option<Selector>,
    /// Their fields.
    pub fields: Vec<Field>,
    /// Whether a tenant asks: by fields that it does not see nothing is found.
    pub is_tenants: bool,
}

impl Selection {
    /// Whether all are meant.
    pub fn is_all(&self) -> bool {
        self.labels.is_none() && self.fields.is_empty()
    }

    /// Whether an object, as it is kept, is meant.
    pub fn selects(&self, entry: &Entry) -> bool {
        labels::selects(self.labels.as_ref(), &entry.value)
            && (self.fields.is_empty() || self.has_fields(entry).unwrap_or(false))
    }

    fn has_fields(&self, entry: &Entry) -> Option<bool> {
        let shown = match self.is_tenants {
            true => {
                let object = catalog::shown(&entry.key, &entry.value).ok()?;
                Some(serde_json::to_string(&object).ok()?)
            }
            false => None,
        };
        let text = match &shown {
            Some(text) => text,
            None => std::str::from_utf8(&entry.value).ok()?,
        };
        Some(self.fields.iter().all(|it| it.holds(text)))
    }
}
