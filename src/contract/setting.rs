//! Settings: what the published contract leaves open. One declaration makes the typed field, its default and its row of the ledger;
//! what may be set follows from the type, and the doc comment is the comment in a printed profile.

use serde::de::DeserializeOwned;
use serde_json::Value;
use toml::Table;

/// One thing the contract leaves open and the value the emulator gives it.
#[derive(Clone, Debug)]
pub struct Setting {
    pub path: String,
    /// The contract's words; "not shown" where it is silent.
    pub contract: &'static str,
    pub assumed: &'static str,
    /// The values that may be set, as typed in TOML; empty where the type shows them.
    pub(crate) values: &'static str,
    /// Which call of a calibration shows the value, or why none does ("not by calls").
    pub observed_by: &'static str,
    /// The built-in value; null if it is not set.
    pub default: Value,
    /// True if a table given for this setting is merged entry by entry (otherwise it replaces the value whole).
    pub merges: bool,
}

impl Setting {
    pub(crate) fn new(path: String, default: Value) -> Self {
        Self { path, contract: "", assumed: "", values: "", observed_by: "", merges: default.is_object(), default }
    }
}

/// A struct of settings, and of further sections.
pub trait Section {
    /// Adds its settings in the order of its fields; `above` leads to the struct.
    fn add_settings(above: &str, all: &mut Vec<Setting>);
}

/// The dotted path of a field.
pub(crate) fn path_of(above: &str, field: &str) -> String {
    if above.is_empty() { field.to_owned() } else { format!("{above}.{field}") }
}

/// The built-in values of a section, as nested tables; unset values are absent.
pub(crate) fn default_values<S: Section>() -> Table {
    let mut settings = Vec::new();
    S::add_settings("", &mut settings);
    nested(settings)
}

fn nested(settings: Vec<Setting>) -> Table {
    let mut values = Table::new();
    for setting in settings.into_iter().filter(|setting| !setting.default.is_null()) {
        let default = toml::Value::try_from(setting.default).expect("JSON without null is TOML");
        *place_of(&mut values, setting.path.split('.')) = default;
    }
    values
}

/// The place that some names lead to; tables on the way to it are made.
pub(crate) fn place_of<'t, 'n>(table: &'t mut Table, names: impl IntoIterator<Item = &'n str>) -> &'t mut toml::Value {
    let mut names = names.into_iter();
    let empty = || toml::Value::Table(Table::new());
    let first = names.next().unwrap_or_default();
    names.fold(table.entry(first).or_insert_with(empty), |place, name| {
        if !place.is_table() {
            *place = empty();
        }
        place.as_table_mut().expect("made above").entry(name).or_insert_with(empty)
    })
}

pub(crate) fn default_section<S: Section + DeserializeOwned>() -> S {
    default_values::<S>().try_into().expect("built-in values have their types, which a test shows")
}

/// Declares a struct of settings, each as `field: type = default { contract: …, assumed: …, observed_by: … }`. The default is
/// written in JSON, as it would be in a file, or computed in parentheses, and is `null` for an `Option` that is not set. `values` says what may be set where the
/// type does not, and `merges: false` that a table replaces the default one. A field without a default is a section.
macro_rules! settings {
    (
        $(#[$of_section:meta])*
        $visible:vis struct $section:ident {
            $($(#[$of_field:meta])* pub $field:ident: $type:ty $(= $default:tt { $($fact:ident: $said:expr),* $(,)? })?,)*
        }
    ) => {
        $(#[$of_section])*
        #[derive(Clone, Debug, PartialEq, ::serde::Deserialize, ::schemars::JsonSchema)]
        #[serde(deny_unknown_fields)]
        $visible struct $section {
            $($(#[$of_field])* pub $field: $type,)*
        }

        impl $crate::contract::setting::Section for $section {
            fn add_settings(above: &str, all: &mut Vec<$crate::contract::setting::Setting>) {
                $($crate::contract::setting::settings!(
                    @add (above, all) $field: $type $(= $default { $($fact: $said),* })?
                );)*
            }
        }

        impl Default for $section {
            fn default() -> Self {
                $crate::contract::setting::default_section()
            }
        }
    };
    (@add ($above:ident, $all:ident) $field:ident: $type:ty = $default:tt { $($fact:ident: $said:expr),* }) => {
        $all.push($crate::contract::setting::Setting {
            $($fact: $said,)*
            ..$crate::contract::setting::Setting::new(
                $crate::contract::setting::path_of($above, stringify!($field)),
                ::serde_json::json!($default),
            )
        })
    };
    (@add ($above:ident, $all:ident) $field:ident: $type:ty) => {
        <$type as $crate::contract::setting::Section>::add_settings(
            &$crate::contract::setting::path_of($above, stringify!($field)),
            $all,
        )
    };
}

pub(crate) use settings;
