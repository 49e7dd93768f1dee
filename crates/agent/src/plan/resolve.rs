// SPDX-License-Identifier: Apache-2.0
//! Resolves a plan and its bindings to programs, and finds all mistakes before anything runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use nix::sys::signal::Signal;
use nix::unistd::geteuid;

use crate::plan::bindings::Bindings;
use crate::plan::format::{Collect, Command, Plan, Step, are_together};
use crate::plan::program::{self, Background, Disk, Program, ReadyPlan, Template};
use crate::plan::variables::{prepare, substitute};
use crate::system::faults::Fault;
use crate::system::users::{User, Users};

/// Resolve a plan, or report all of its mistakes.
pub fn resolve(plan: &Plan, bindings: &Bindings, users: &Users) -> Result<ReadyPlan, Vec<Fault>> {
    let mut resolver = Resolver {
        users,
        variables: BTreeMap::new(),
        bound: BTreeMap::new(),
        earlier: BTreeMap::new(),
        now: Turn::default(),
        environment: BTreeMap::new(),
        devices: plan.devices.iter().map(|device| device.name.as_str()).collect(),
        faults: Vec::new(),
    };
    resolver.bind(plan, bindings);
    let environment = resolver.plan_environment(&plan.environment);
    let disks = resolver.disks(plan, bindings);
    resolver.require(plan.monitors.interval_ns > 0, "monitors.interval_ns", "must be above 0");
    resolver.require(plan.time_limit_ns > 0, "time_limit_ns", "must be above 0");
    resolver.unique_ids(&plan.steps);
    let mut steps = Vec::new();
    for (index, step) in plan.steps.iter().enumerate() {
        let previous = index.checked_sub(1).map(|previous| &plan.steps[previous]);
        resolver.now = resolver.now.next(previous, step);
        steps.extend(resolver.step(index, step));
    }
    if !resolver.faults.is_empty() {
        return Err(resolver.faults);
    }
    Ok(ReadyPlan {
        environment,
        variables: resolver.variables,
        disks,
        interval_ns: plan.monitors.interval_ns,
        time_limit_ns: plan.time_limit_ns,
        steps,
    })
}

/// The turn of a step: steps of one group run at the same time, except within a lane.
#[derive(Debug, Default, Clone, Copy)]
struct Turn<'a> {
    group: usize,
    lane: Option<&'a str>,
}

impl<'a> Turn<'a> {
    fn next(self, previous: Option<&Step>, step: &'a Step) -> Self {
        let place = |step: &'a Step| (step.phase, step.lane.as_deref());
        let beside = previous.is_some_and(|it| are_together((it.phase, it.lane.as_deref()), place(step)));
        Self { group: if beside { self.group } else { self.group + 1 }, lane: step.lane.as_deref() }
    }

    /// Whether a step of the plan so far is over when one of `later` begins.
    fn is_over(self, later: Self) -> bool {
        self.group < later.group || self.lane == later.lane
    }
}

struct Resolver<'a> {
    users: &'a Users,
    variables: BTreeMap<String, String>,
    /// The variables bound by the steps so far; their values are known once these have run.
    bound: BTreeMap<&'a str, Turn<'a>>,
    /// The ids of the steps so far.
    earlier: BTreeMap<&'a str, Turn<'a>>,
    /// The turn of the current step.
    now: Turn<'a>,
    /// The plan's, as a step begins with it.
    environment: BTreeMap<String, String>,
    devices: BTreeSet<&'a str>,
    faults: Vec<Fault>,
}

impl<'a> Resolver<'a> {
    fn fault(&mut self, place: impl Into<String>, cause: impl Into<String>) {
        self.faults.push(Fault::new(place, cause));
    }

    fn require(&mut self, holds: bool, place: &str, cause: &str) {
        if !holds {
            self.fault(place, cause);
        }
    }

    fn bind(&mut self, plan: &Plan, bindings: &Bindings) {
        let devices = plan.devices.iter().map(|device| &device.name);
        let names: BTreeSet<&String> = plan.variables.iter().chain(devices).collect();
        for name in names {
            if let Some(value) = bindings.variables.get(name) {
                self.variables.insert(name.clone(), value.clone());
            } else {
                // Bound to nothing, so that its uses are not reported as well.
                self.variables.insert(name.clone(), String::new());
                self.fault("bindings.variables", format!("the plan's variable \"{name}\" is not bound"));
            }
        }
    }

    fn disks(&mut self, plan: &Plan, bindings: &Bindings) -> Vec<Disk> {
        let mut disks = Vec::new();
        for name in &plan.monitors.disks {
            let Some(stat_name) = bindings.stat_names.get(name) else {
                self.fault("bindings.stat_names", format!("the monitored disk \"{name}\" is not bound"));
                continue;
            };
            let stat = format!("/sys/block/{stat_name}/stat");
            if Path::new(&stat).exists() {
                disks.push(Disk { name: name.clone(), stat_name: stat_name.clone() });
            } else {
                self.fault(format!("bindings.stat_names.{name}"), format!("{stat} does not exist"));
            }
        }
        disks
    }

    fn unique_ids(&mut self, steps: &[Step]) {
        let mut first = BTreeMap::new();
        for (index, step) in steps.iter().enumerate() {
            if let Some(other) = first.insert(step.id.as_str(), index) {
                self.fault(
                    format!("steps[{index}].id"),
                    format!("\"{}\" is the id of steps[{other}] already", step.id),
                );
            }
        }
    }

    /// It depends on no step's output.
    fn plan_environment(&mut self, given: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        self.environment = self.environment("environment", given);
        let known = |text: &String| substitute(text, &BTreeMap::new()).unwrap_or_default();
        self.environment.iter().map(|(name, text)| (name.clone(), known(text))).collect()
    }

    fn step(&mut self, index: usize, step: &'a Step) -> Option<Template<program::Step>> {
        let place = format!("steps[{index}] ({})", step.id);
        self.check(&place, step);
        self.earlier.insert(&step.id, self.now);
        let cgroup = step.cgroup.as_ref().map(|folder| self.absolute(&format!("{place}.cgroup"), folder));
        let machine = step.machine.as_ref().map(|socket| self.absolute(&format!("{place}.machine"), socket));
        let in_machine = |program: Program| Program { machine: machine.clone(), ..program };
        let in_group = |program: Program| Program { cgroup: cgroup.clone(), ..in_machine(program) };
        let is_inside = step.machine.is_some();
        let asks = |program: Program| Program { asks_for_container: step.container, ..program };
        let program = self.program(&place, &step.command(), is_inside).map(in_group).map(asks);
        let background = self.background(&place, step);
        let collect = step
            .collect
            .iter()
            .enumerate()
            .map(|(at, wanted)| Collect {
                name: wanted.name.clone(),
                path: self.text(&format!("{place}.collect[{at}].path"), &wanted.path),
            })
            .collect();
        self.bind_by(&place, step);
        let undo = step
            .undo
            .as_ref()
            .map(|undo| self.program(&format!("{place}.undo"), undo, is_inside).map(in_machine));
        Some(Template::new(program::Step {
            id: step.id.clone(),
            phase: step.phase,
            program: program?,
            background: background
                .map(|background| Background { ready: background.ready.map(in_group), ..background }),
            collect,
            output_limit_bytes: step.output_limit_bytes,
            undo: match undo {
                Some(undo) => Some(Template::new(undo?)),
                None => None,
            },
            binds: step.binds.clone(),
            takes_down: step.takes_down.clone(),
            lane: step.lane.clone(),
            not_before_ns: step.not_before_ns,
            until: step.until.clone(),
        }))
    }

    /// Check a step's keys other than its programs.
    fn check(&mut self, place: &str, step: &Step) {
        for (key, name) in [("id", Some(&step.id)), ("lane", step.lane.as_ref())] {
            self.require(
                name.is_none_or(|name| is_kebab_case(name)),
                &format!("{place}.{key}"),
                "not in kebab case: write for example \"fio-measure\"",
            );
        }
        self.require(
            step.not_before_ns == 0 || step.lane.is_some(),
            &format!("{place}.not_before_ns"),
            "only a step with a lane has it",
        );
        for device in &step.destroys {
            if !self.devices.contains(device.as_str()) {
                self.fault(format!("{place}.destroys"), format!("\"{device}\" is no device of the plan"));
            }
        }
        if let Some(until) = &step.until {
            let is_known = until.of == step.id || self.earlier.contains_key(until.of.as_str());
            self.require(is_known, &format!("{place}.until.of"), "no earlier step, and not this one");
            self.require(until.share > 0.0, &format!("{place}.until.share"), "must be above 0");
        }
        for earlier in &step.takes_down {
            let cause = match self.earlier.get(earlier.as_str()) {
                None => "is no earlier step",
                Some(turn) if !turn.is_over(self.now) => "is of a lane that runs beside it",
                Some(_) => continue,
            };
            self.fault(format!("{place}.takes_down"), format!("\"{earlier}\" {cause}"));
        }
    }

    /// The step's variable may be used from here on.
    fn bind_by(&mut self, place: &str, step: &'a Step) {
        let Some(name) = step.binds.as_deref() else { return };
        let place = format!("{place}.binds");
        self.require(!step.background, &place, "a background step has not ended when others begin");
        if name.is_empty() || name.contains('}') {
            self.fault(&place, format!("\"{name}\" cannot be a variable's name"));
        } else if self.variables.contains_key(name) {
            self.fault(&place, format!("the variable \"{name}\" is bound already"));
        } else if self.bound.get(name).is_some_and(|turn| !turn.is_over(self.now)) {
            self.fault(&place, format!("the variable \"{name}\" is bound by a lane that runs beside it"));
        } else {
            self.bound.insert(name, self.now); // anew by a step that brings up again what was taken down
        }
    }

    fn absolute(&mut self, place: &str, path: &str) -> String {
        let text = self.text(place, path);
        self.require(text.starts_with(['/', '$']), place, "not absolute");
        text
    }

    fn background(&mut self, place: &str, step: &Step) -> Option<Background> {
        let ready =
            step.ready.as_ref().and_then(|ready| self.program(&format!("{place}.ready"), ready, false));
        if !step.background {
            self.require(step.ready.is_none(), &format!("{place}.ready"), "only a background step has it");
            return None;
        }
        self.require(step.ready_interval_ns > 0, &format!("{place}.ready_interval_ns"), "must be above 0");
        self.require(step.stop_limit_ns > 0, &format!("{place}.stop_limit_ns"), "must be above 0");
        let named = step.stop_signal.as_ref().map(|name| {
            let parsed = format!("SIG{}", name.strip_prefix("SIG").unwrap_or(name)).parse::<Signal>();
            parsed.map_err(|_| format!("\"{name}\" is no signal"))
        });
        let stop_signal = match named.transpose() {
            Ok(signal) => signal,
            Err(cause) => {
                self.fault(format!("{place}.stop_signal"), cause);
                return None;
            }
        };
        Some(Background {
            ready,
            ready_interval_ns: step.ready_interval_ns,
            stop_signal,
            stop_limit_ns: step.stop_limit_ns,
        })
    }

    /// Inside a virtual machine or a container it is a program of other users.
    fn program(&mut self, place: &str, command: &Command, is_inside: bool) -> Option<Program> {
        let mut environment = self.environment.clone();
        environment.extend(self.environment(&format!("{place}.environment"), &command.environment));
        let argv: Vec<String> = command
            .argv
            .iter()
            .enumerate()
            .map(|(at, word)| self.text(&format!("{place}.argv[{at}]"), word))
            .collect();
        let cwd = self.text(&format!("{place}.cwd"), &command.cwd);
        let stdin = command.stdin.as_ref().map(|text| self.text(&format!("{place}.stdin"), text));
        self.require(!command.argv.is_empty(), &format!("{place}.argv"), "empty: there is nothing to run");
        if argv.first().is_some_and(String::is_empty) && !command.argv[0].contains('$') {
            self.fault(format!("{place}.argv[0]"), "empty: there is nothing to run");
        }
        self.require(
            cwd.starts_with(['/', '$']) || (cwd.is_empty() && command.cwd.contains('$')),
            &format!("{place}.cwd"),
            "not absolute",
        );
        self.require(command.time_limit_ns > 0, &format!("{place}.time_limit_ns"), "must be above 0");
        for text in argv.iter().chain(environment.values()).chain([&cwd]) {
            self.require(!text.contains('\0'), place, "a text holds a NUL character");
        }
        for name in command.environment.keys() {
            self.require(
                !name.is_empty() && !name.contains(['=', '\0']),
                &format!("{place}.environment"),
                "a variable has no name, or one with =",
            );
        }
        Some(Program {
            argv,
            environment,
            user: if is_inside {
                Some(User::elsewhere(&command.user))
            } else {
                self.user(place, &command.user)?
            },
            cwd,
            stdin,
            time_limit_ns: command.time_limit_ns,
            expect_exit: command.expect_exit.clone(),
            cgroup: None,
            machine: None,
            asks_for_container: false,
        })
    }

    /// `Some(None)`: the agent runs as that user already.
    #[expect(clippy::option_option, reason = "unknown, no switch and switch are three cases")]
    fn user(&mut self, place: &str, name: &str) -> Option<Option<User>> {
        let Some(user) = self.users.find(name) else {
            self.fault(format!("{place}.user"), format!("there is no user \"{name}\" in /etc/passwd"));
            return None;
        };
        let agent = geteuid();
        if agent.is_root() {
            return Some(Some(user));
        }
        if agent.as_raw() != user.uid {
            self.fault(format!("{place}.user"), format!("only root can run a step as \"{name}\""));
            return None;
        }
        Some(None)
    }

    fn environment(&mut self, place: &str, given: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        given
            .iter()
            .map(|(name, value)| (name.clone(), self.text(&format!("{place}.{name}"), value)))
            .collect()
    }

    fn text(&mut self, place: &str, text: &str) -> String {
        let bound = |name: &str| self.bound.get(name).is_some_and(|turn| turn.is_over(self.now));
        prepare(text, &self.variables, bound).unwrap_or_else(|mistakes| {
            for mistake in mistakes {
                self.fault(place, mistake);
            }
            String::new()
        })
    }
}

fn is_kebab_case(name: &str) -> bool {
    let is_word =
        |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    name.split('-').all(is_word)
}
