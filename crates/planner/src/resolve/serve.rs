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
        Settings {
            models: named,
            default,
            assume: serve.assume.unwrap_or(before.assume),
            prefer: serve.prefer,
            unknown_hosts: serve.unknown_hosts,
            agents,
            every,
        }
    }
}
