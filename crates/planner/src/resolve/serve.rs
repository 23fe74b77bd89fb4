//! How a plan is served.

use std::collections::HashMap;

use units::Span;

use super::{Places, Resolver};
use crate::settings::Settings;

impl Resolver<'_> {
    pub(super) fn serve(
        &mut self,
        hosts: &[(String, usize, usize)],
        models: &Places<'_>,
        vms: &Places<'_>,
    ) -> Settings {
        let files = self.files;
        let mut sections = files
            .iter()
            .enumerate()
            .filter_map(|(file, (_, read))| read.file.serve.as_ref().map(|serve| (file, serve)));
        let Some((file, serve)) = sections.next() else { return Settings::default() };
        if let Some((second, _)) = sections.next() {
            self.complain(second, "/serve", "a plan is served in one way: take this out");
        }
        let before = Settings::default();
        let named = serve.models.iter().enumerate().filter_map(|(place, name)| {
            self.look_up(models, name, file, &format!("/serve/models/{place}"))
        });
        let named = named.collect();
        let default = serve.default.as_ref();
        let default = default.and_then(|it| self.look_up(models, it, file, "/serve/default"));
        let mut agents = Vec::new();
        let places: HashMap<&str, usize> =
            hosts.iter().enumerate().map(|(place, (host, ..))| (host.as_str(), place)).collect();
        for (name, address) in &serve.agents.0 {
            let path = format!("/serve/agents/{}", tree::escape(name));
            let host = places.get(name.as_str()).copied();
            if host.is_none() {
                let known: Vec<&str> = hosts.iter().map(|(host, ..)| host.as_str()).collect();
                let message = model::mistake::unknown(name, &known);
                self.complain(file, &path, format!("no host has this name: {message}"));
            }
            match address.parse() {
                Ok(address) => agents.extend(host.map(|host| (host, address))),
                Err(message) => self.complain(file, &path, message),
            }
        }
        let every = serve.every.unwrap_or(before.every);
        if every < Span::from_secs(1) {
            self.complain(file, "/serve/every", "agents are read once a second at most");
        }
        let mut ports = Vec::new();
        for (pattern, vm) in &serve.ports.0 {
            let path = format!("/serve/ports/{}", tree::escape(pattern));
            let vm = self.look_up(vms, vm, file, &path);
            ports.extend(vm.map(|vm| (pattern.clone(), vm)));
        }
        if !serve.ports.0.is_empty() && serve.agents.0.is_empty() {
            let message = "ports are those of agents: say in `agents` where these show metrics";
            self.complain(file, "/serve/ports", message);
        }
        Settings {
            models: named,
            default,
            assume: serve.assume.unwrap_or(before.assume),
            prefer: serve.prefer,
            unknown_hosts: serve.unknown_hosts,
            agents,
            every,
            ports,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::fault::PlanError;
    use crate::plan::Plan;

    fn plan(serve: &str) -> Result<Plan, PlanError> {
        let text = format!(
            "goal: {{epsilon: 0.001}}\n\
             types:\n  r: {{cores: 8, memory: 32gib, switch: [{{carries: 1gbit}}]}}\n\
             hosts:\n  h: {{type: r}}\n\
             models:\n  web: {{rate: 1mbit}}\n\
             vms:\n  web: {{count: 1, model: web, cores: 1, memory: 1gib}}\n\
             serve: {serve}\n"
        );
        Plan::of_text(Path::new("p.yaml"), &text)
    }

    #[test]
    fn ports_are_machines_in_the_order_of_their_patterns() {
        let serve = "{agents: {h: \"192.0.2.1:9109\"}, ports: {\"web-*\": web, \"*\": web}}";
        let ports = plan(serve).unwrap().serve.ports;
        assert_eq!(ports, [("web-*".to_owned(), 0), ("*".to_owned(), 0)]);
    }

    #[test]
    fn what_cannot_be_has_its_place() {
        for (serve, path, word) in [
            ("{ports: {\"web-*\": web}}", "/serve/ports", "say in `agents`"),
            (
                "{agents: {h: \"a:1\"}, ports: {\"web-*\": wbe}}",
                "/serve/ports/web-*",
                "no machine has this name",
            ),
            ("{agents: {g: \"a:1\"}}", "/serve/agents/g", "no host has this name"),
            ("{agents: {h: \"https://a\"}}", "/serve/agents/h", "HTTPS is not spoken"),
            ("{every: 10ms}", "/serve/every", "once a second at most"),
        ] {
            let Err(PlanError::Faults(faults)) = plan(serve) else { panic!("{serve} was read") };
            let [fault] = &faults[..] else { panic!("one fault: {faults:?}") };
            assert_eq!(fault.path, path);
            assert!(fault.message.contains(word), "{fault}");
        }
    }
}
