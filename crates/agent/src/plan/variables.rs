// SPDX-License-Identifier: Apache-2.0
//! `${name}` in a plan's texts; `$$` is a literal dollar sign.

use std::collections::BTreeMap;

/// Put the variables' values into `text`.
///
/// Returns every mistake in it: an unknown variable, a brace that is never closed, a lone dollar sign.
pub fn substitute(text: &str, variables: &BTreeMap<String, String>) -> Result<String, Vec<String>> {
    replace(text, "$", |name| variables.get(name).cloned())
}

/// Put the values that are known into `text` and leave the variables of `later`: `substitute` does the rest.
pub fn prepare(
    text: &str,
    variables: &BTreeMap<String, String>,
    later: impl Fn(&str) -> bool,
) -> Result<String, Vec<String>> {
    replace(text, "$$", |name| {
        if later(name) {
            return Some(format!("${{{name}}}"));
        }
        variables.get(name).map(|value| value.replace('$', "$$"))
    })
}

fn replace(
    text: &str,
    dollar: &str,
    value_of: impl Fn(&str) -> Option<String>,
) -> Result<String, Vec<String>> {
    let mut result = String::with_capacity(text.len());
    let mut mistakes = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        result.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            result.push_str(dollar);
            rest = after;
        } else if let Some(after) = rest.strip_prefix('{') {
            let Some(end) = after.find('}') else {
                mistakes.push(format!("\"${{{after}\" has no closing brace"));
                break;
            };
            let name = &after[..end];
            match value_of(name) {
                Some(value) => result.push_str(&value),
                None => mistakes.push(format!("unknown variable ${{{name}}}")),
            }
            rest = &after[end + 1..];
        } else {
            mistakes.push("a lone $; write $$ for a dollar sign".into());
        }
    }
    result.push_str(rest);
    if mistakes.is_empty() { Ok(result) } else { Err(mistakes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables() -> BTreeMap<String, String> {
        BTreeMap::from([("disk0".into(), "/dev/sda".into()), ("odd".into(), "${disk0}$$".into())])
    }

    #[test]
    fn a_variable_is_replaced_wherever_it_stands() {
        assert_eq!(substitute("if=${disk0},of=${disk0}!", &variables()).unwrap(), "if=/dev/sda,of=/dev/sda!");
    }

    #[test]
    fn two_dollars_are_one_and_shield_what_follows() {
        assert_eq!(substitute("$${disk0} costs 5$$", &variables()).unwrap(), "${disk0} costs 5$");
    }

    #[test]
    fn a_value_is_never_substituted_again() {
        assert_eq!(substitute("${odd}", &variables()).unwrap(), "${disk0}$$");
    }

    #[test]
    fn what_is_bound_later_is_left_for_then() {
        let prepared = prepare("${odd}$$ ${loop} $${loop}", &variables(), |name| name == "loop").unwrap();

        let bound = BTreeMap::from([("loop".into(), "/dev/loop$7".into())]);
        assert_eq!(substitute(&prepared, &bound).unwrap(), "${disk0}$$$ /dev/loop$7 ${loop}");
        assert_eq!(substitute(&prepared, &BTreeMap::new()).unwrap_err(), ["unknown variable ${loop}"]);
    }

    #[test]
    fn every_mistake_is_reported() {
        let mistakes = substitute("${a} $x ${b} ${", &variables()).unwrap_err();

        assert_eq!(mistakes.len(), 4, "{mistakes:?}");
        assert!(mistakes[0].contains("${a}") && mistakes[2].contains("${b}"), "{mistakes:?}");
    }
}
