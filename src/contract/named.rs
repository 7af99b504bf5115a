//! Closed sets whose members have names: one declaration makes the type, the list of its members, and the conversions to
//! and from their names.

/// Declares an enum of which each member is written with its name.
macro_rules! named {
    ($(#[$of_set:meta])* $visible:vis enum $set:ident { $($(#[$of_member:meta])* $member:ident = $name:literal,)+ }) => {
        $(#[$of_set])*
        $visible enum $set {
            $($(#[$of_member])* $member,)+
        }

        impl $set {
            /// Every member, in the order of their declaration.
            $visible const ALL: [Self; [$($name),+].len()] = [$(Self::$member),+];

            /// The name, as settings, scenarios and listings write it.
            $visible const fn name(self) -> &'static str {
                match self {
                    $(Self::$member => $name,)+
                }
            }

            /// The member of this name.
            $visible fn from_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|member| member.name() == name)
            }
        }
    };
}

pub(crate) use named;
