"""Has Nova's scheduler ask `zovn plan serve` which hosts carry a server's traffic.

One request for all hosts: the filter takes those out whose switch would be asked for too much, and
the weigher prefers those that have most left. A flavor says its model by the extra specification
`zovn:model`. docs/planning.md shows what to write into nova.conf.
"""

import json
import ssl
import urllib.request

from oslo_config import cfg
from oslo_log import log as logging

import nova.conf
from nova.scheduler import filters, utils, weights

LOG = logging.getLogger(__name__)
CONF = nova.conf.CONF
CONF.register_opts([
    cfg.StrOpt('url', default='http://127.0.0.1:8899', help='Where `zovn plan serve` listens.'),
    cfg.StrOpt('cafile', help="PEM of who signs the planner's certificate, if the system does not "
                              'trust them.'),
    cfg.StrOpt('certfile', help='PEM of a certificate that the planner wants to see, if it does.'),
    cfg.StrOpt('keyfile', help="PEM of that certificate's private key."),
    cfg.FloatOpt('timeout', default=2.0, min=0.01, help='Seconds to wait for an answer.'),
    cfg.StrOpt('on_failure', default='open', choices=['open', 'closed'],
               help='Without an answer, let all hosts pass (open) or none (closed).'),
    cfg.StrOpt('host_name', default='host', choices=['host', 'nodename'],
               help='By which of its names the plan knows a host.'),
    cfg.FloatOpt('weight_multiplier', default=1.0, help="What the weigher's weights count."),
], group='zovn')


def opener():
    """Who connects to the planner, by certificates as they are now."""
    # The planner is near; a proxy for the outside is not on the way.
    handlers = [urllib.request.ProxyHandler({})]
    if CONF.zovn.url.startswith('https:'):
        context = ssl.create_default_context(cafile=CONF.zovn.cafile)
        if CONF.zovn.certfile:
            context.load_cert_chain(CONF.zovn.certfile, CONF.zovn.keyfile)
        handlers.append(urllib.request.HTTPSHandler(context=context))
    return urllib.request.build_opener(*handlers)


def name_of(host_state):
    return getattr(host_state, CONF.zovn.host_name)


def ask(host_states, spec_obj, assume):
    """The planner's answer for all hosts, or None if there is none."""
    flavor = spec_obj.flavor
    question = {
        'spec': {
            'instance_uuid': spec_obj.instance_uuid,
            'flavor': {
                'vcpus': flavor.vcpus,
                'memory_mb': flavor.memory_mb,
                'extra_specs': dict(flavor.extra_specs or {}),
            },
        },
        'hosts': [name_of(it) for it in host_states],
        'assume': assume,
    }
    try:
        request = urllib.request.Request(
            CONF.zovn.url.rstrip('/') + '/v1/plan/hosts', data=json.dumps(question).encode(),
            headers={'Content-Type': 'application/json'})
        with opener().open(request, timeout=CONF.zovn.timeout) as answer:
            read = json.load(answer)
        return {'hosts': set(read['hosts']), 'weights': dict(read['weights']),
                'reasons': dict(read['reasons'])}
    except Exception as error:  # Whatever is wrong with it must not end the scheduler.
        LOG.warning('zovn plan does not answer, failing %s: %s', CONF.zovn.on_failure, error)
        return None


class ZovnFilter(filters.BaseHostFilter):
    """Hosts that stay within the plan's goal with the server."""

    RUN_ON_REBUILD = False

    def filter_all(self, filter_obj_list, spec_obj):
        hosts = list(filter_obj_list)
        if not hosts or (not self.RUN_ON_REBUILD and utils.request_is_rebuild(spec_obj)):
            return hosts
        answer = ask(hosts, spec_obj, assume=False)
        if answer is None:
            return hosts if CONF.zovn.on_failure == 'open' else []
        for host, reason in answer['reasons'].items():
            LOG.debug('%s: %s', host, reason)
        return [it for it in hosts if name_of(it) in answer['hosts']]


class ZovnWeigher(weights.BaseHostWeigher):
    """Prefers hosts by what is left of them, as the plan's `prefer` says."""

    minval = 0.0
    maxval = 1.0

    def weight_multiplier(self, host_state):
        return CONF.zovn.weight_multiplier

    def _weigh_object(self, obj, weight_properties):
        return self.weigh_objects([weights.WeighedHost(obj, 0.0)], weight_properties)[0]

    def weigh_objects(self, weighed_obj_list, weight_properties):
        hosts = [it.obj for it in weighed_obj_list]
        # With a negative multiplier Nova takes another than the one that weighs most.
        assume = CONF.zovn.weight_multiplier > 0
        answer = ask(hosts, weight_properties, assume) if hosts else None
        known = answer['weights'] if answer else {}
        return [float(known.get(name_of(it), 0.0)) for it in hosts]
