// SPDX-License-Identifier: Apache-2.0
//! The keys of a TOML table, taken one by one; missing, wrong and unknown keys become faults with their places.

use std::cell::RefCell;
use std::rc::Rc;

use toml::{Table, Value};

use crate::faults::Fault;

type Found = Rc<RefCell<Vec<Fault>>>;

pub struct Keys {
    table: Table,
    /// The file.
    file: String,
    /// The path of this table in it with a dot after it, or nothing.
    path: String,
    found: Found,
}

impl Keys {
    pub fn new(table: Table, file: &str) -> Self {
        Self { table, file: file.to_owned(), path: String::new(), found: Found::default() }
    }

    /// The faults of this table and of those in it.
    pub fn found(&self) -> Found {
        Rc::clone(&self.found)
    }

    pub fn fault(&mut self, key: &str, cause: String, remedy: &str) {
        let place = format!("{}: {}{key}", self.file, self.path);
        self.found.borrow_mut().push(Fault::new(place, cause, remedy));
    }

    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    fn take(&mut self, key: &str) -> Option<Value> {
        let value = self.table.remove(key);
        if value.is_none() {
            self.fault(key, "it is missing".to_owned(), "see one of crates/load/personalities");
        }
        value
    }

    /// A text that is not empty; empty if it is wrong.
    pub fn text(&mut self, key: &str) -> String {
        match self.take(key) {
            Some(Value::String(text)) if !text.is_empty() => return text,
            Some(_) => self.fault(key, "it is not a text".to_owned(), "write it in quotation marks"),
            None => {}
        }
        String::new()
    }

    /// A whole number in a range; its least value if it is wrong.
    pub fn number(&mut self, key: &str, least: u64, most: u64) -> u64 {
        let given = match self.take(key) {
            Some(Value::Integer(number)) => u64::try_from(number).ok(),
            Some(_) => None,
            None => return least,
        };
        if let Some(number) = given.filter(|number| (least..=most).contains(number)) {
            return number;
        }
        let cause = format!("it is not a whole number from {least} to {most}");
        self.fault(key, cause, "write such a number, without unit and quotation marks");
        least
    }

    /// A number from 0 to 1000; 0 if it is wrong.
    pub fn fraction(&mut self, key: &str) -> f64 {
        let given = match self.take(key) {
            Some(Value::Float(number)) => number,
            #[expect(clippy::cast_precision_loss, reason = "what matters is small")]
            Some(Value::Integer(number)) => number as f64,
            Some(_) => f64::NAN,
            None => return 0.0,
        };
        if (0.0..=1000.0).contains(&given) {
            return given;
        }
        self.fault(key, "it is not a number from 0 to 1000".to_owned(), "write for example 1.5");
        0.0
    }

    pub fn flag(&mut self, key: &str, default: bool) -> bool {
        match self.table.remove(key) {
            None => default,
            Some(Value::Boolean(flag)) => flag,
            Some(_) => {
                self.fault(key, "it is neither true nor false".to_owned(), "write true or false");
                default
            }
        }
    }

    /// The tables in a list, at least one.
    pub fn tables(&mut self, key: &str) -> Vec<Self> {
        let list = match self.take(key) {
            Some(Value::Array(list)) if !list.is_empty() => list,
            Some(_) => {
                self.fault(key, "it is not a list with something in it".to_owned(), "give at least one");
                return Vec::new();
            }
            None => return Vec::new(),
        };
        let mut tables = Vec::new();
        for (index, value) in list.into_iter().enumerate() {
            let place = format!("{key}[{index}]");
            match value {
                Value::Table(table) => tables.push(Self {
                    table,
                    file: self.file.clone(),
                    path: format!("{}{place}.", self.path),
                    found: Rc::clone(&self.found),
                }),
                _ => self.fault(&place, "it is not a table".to_owned(), "write { op = … }"),
            }
        }
        tables
    }

    /// Report the keys that were not taken.
    pub fn finish(mut self) {
        for key in self.table.keys().cloned().collect::<Vec<_>>() {
            self.fault(&key, "there is no such key".to_owned(), "look for a misspelling, or leave it out");
        }
    }
}
