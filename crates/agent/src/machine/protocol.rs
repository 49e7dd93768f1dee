// SPDX-License-Identifier: Apache-2.0
//! A virtual machine inside this one: what the agent outside and the agent that is its first process tell each other.
//!
//! Requests go in as lines of JSON, each with the number of its call. Answers come out as events, in which the call
//! takes the place of the step. In between, `machine_host` gives each caller a connection of its own.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::plan::format::Collect;
use crate::plan::program::Program;
use crate::report::events::{Content, Event, Sink};

/// A request to the agent in a machine.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Run a program, and answer with its output and its end.
    Run(Program),
    /// Send a signal to the program of the same call.
    Signal(i32),
    /// Answer with files.
    Read(Collect),
    /// Write everything back and switch off.
    PowerOff,
}

/// A request on its way into the machine.
#[derive(Debug, Serialize, Deserialize)]
pub struct Call {
    pub call: String,
    pub request: Request,
}

/// The events of a machine that its callers know.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Answer {
    /// The machine is up.
    AgentStart,
    Output {
        step: String,
        stream: String,
        #[serde(flatten)]
        content: Shipped,
    },
    File {
        step: String,
        #[serde(flatten)]
        content: Shipped,
    },
    StepEnd {
        step: String,
        exit_code: Option<i32>,
        signal: Option<String>,
        error: Option<String>,
    },
}

/// The content of an event, as it was written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shipped {
    Text(String),
    Base64(String),
}

impl Answer {
    /// The call that it answers.
    pub fn call(&self) -> Option<&str> {
        match self {
            Self::AgentStart => None,
            Self::Output { step, .. } | Self::File { step, .. } | Self::StepEnd { step, .. } => Some(step),
        }
    }
}

/// One line of JSON.
pub fn line_of(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("a message is plain text and numbers");
    line.push(b'\n');
    line
}

/// Take the complete lines out of what has arrived.
pub fn take_lines(arrived: &mut Vec<u8>) -> Vec<Vec<u8>> {
    let complete = arrived.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let lines: Vec<u8> = arrived.drain(..complete).collect();
    lines.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

/// Ship files of a machine as those of a step, sorted and concatenated there.
pub fn ship(sink: &mut Sink, step: &str, wanted: &Collect, socket: &str) -> Result<(), String> {
    let failed = |error: io::Error| format!("the machine does not answer: {error}");
    let mut stream = UnixStream::connect(Path::new(socket)).map_err(failed)?;
    stream.write_all(&line_of(&Request::Read(wanted.clone()))).map_err(failed)?;
    let name = wanted.name.as_str();
    for line in BufReader::new(stream).lines() {
        match serde_json::from_str(&line.map_err(failed)?) {
            Ok(Answer::File { content, .. }) => {
                let content = match &content {
                    Shipped::Text(text) => Content::Text(text),
                    Shipped::Base64(text) => Content::Base64(text.clone()),
                };
                sink.emit(&Event::File { step, name, content, last: false });
            }
            Ok(Answer::StepEnd { error: Some(cause), .. }) => return Err(cause),
            Ok(Answer::StepEnd { .. }) => {
                sink.emit(&Event::File { step, name, content: Content::Text(""), last: true });
                return Ok(());
            }
            _ => {}
        }
    }
    Err("the machine ended meanwhile".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_when_they_are_complete() {
        let mut arrived = b"one\ntwo\nthr".to_vec();

        assert_eq!(take_lines(&mut arrived), [b"one\n".to_vec(), b"two\n".to_vec()]);
        assert_eq!(arrived, b"thr");
        assert!(take_lines(&mut arrived).is_empty());
    }

    #[test]
    fn a_call_survives_its_way_into_the_machine() {
        let call = Call { call: "3".into(), request: Request::Signal(15) };

        let arrived: Call = serde_json::from_slice(&line_of(&call)).unwrap();

        assert_eq!(arrived.call, "3");
        assert!(matches!(arrived.request, Request::Signal(15)));
    }

    #[test]
    fn output_and_end_of_a_call_are_read_from_events() {
        let output = r#"{"seq":1,"type":"output","step":"4","stream":"stderr","base64":"/wA="}"#;
        let end = r#"{"seq":2,"type":"step_end","step":"4","outcome":"ok","exit_code":0,"signal":null,"error":null}"#;

        let answers: Vec<Answer> = [output, end].map(|line| serde_json::from_str(line).unwrap()).into();

        assert!(matches!(&answers[0], Answer::Output { content: Shipped::Base64(_), .. }), "{answers:?}");
        assert_eq!(answers[1].call(), Some("4"));
    }
}
