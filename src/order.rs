//! Lists in the order of a number or text, and ordered maps. The standard library's sort is compiled again, at 6 to 30 KB, for each
//! type that it sorts or collects into a map; these sort places and move each item once. Knows nothing of what is sorted.

use std::collections::BTreeMap;

/// Sorts by a pair of numbers; what has the same stays in its order.
pub fn by_number<T>(items: &mut Vec<T>, key: impl Fn(&T) -> (usize, usize)) {
    let mut places: Vec<((usize, usize), usize)> = items.iter().map(key).zip(0..).collect();
    places.sort_unstable();
    arrange(items, places.into_iter().map(|(_, place)| place));
}

/// Sorts by a text; what has the same stays in its order.
pub fn by_text<T>(items: &mut Vec<T>, key: impl Fn(&T) -> &str) {
    let mut places: Vec<(&str, usize)> = items.iter().map(key).zip(0..).collect();
    places.sort_unstable();
    let places: Vec<usize> = places.into_iter().map(|(_, place)| place).collect();
    arrange(items, places.into_iter());
}

fn arrange<T>(items: &mut Vec<T>, places: impl Iterator<Item = usize>) {
    let mut waiting: Vec<Option<T>> = std::mem::take(items).into_iter().map(Some).collect();
    items.extend(places.map(|place| waiting[place].take().expect("each place is named once")));
}

/// An ordered map of these entries, of which the last of one key stays.
pub fn map<K: Ord, V>(entries: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, V> {
    let mut map = BTreeMap::new();
    map.extend(entries);
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_keep_their_order() {
        let mut items = vec!["b2", "a2", "b1", "c0", "a1"];
        by_text(&mut items, |item| &item[..1]);
        assert_eq!(items, ["a2", "a1", "b2", "b1", "c0"]);
        by_number(&mut items, |item| (usize::from(item.as_bytes()[1]), 0));
        assert_eq!(items, ["c0", "a1", "b1", "a2", "b2"]);
        by_number(&mut items, |item| (0, usize::from(u8::MAX - item.as_bytes()[0])));
        assert_eq!(items, ["c0", "b1", "b2", "a1", "a2"]);
        assert_eq!(map([("b", 1), ("a", 2), ("b", 3)]).into_iter().collect::<Vec<_>>(), [("a", 2), ("b", 3)]);
    }
}
