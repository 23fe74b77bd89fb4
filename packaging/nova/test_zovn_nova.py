"""The filter and the weigher in Nova's own handlers, against a planner at two addresses:

test_zovn_nova.py URL HTTPS_URL CA CERTIFICATE KEY
"""

import sys

import nova.conf
from nova import objects
from nova.scheduler import filters, host_manager, weights

import zovn_nova

objects.register_all()
CONF = nova.conf.CONF
CONF([], project='nova', default_config_files=[])


def host(name):
    return host_manager.HostState(name, name + '.example', None)


def spec(model, uuid='6c5a3b2e-0f4e-4a77-9a0e-1c1f3f2d8c11', **hints):
    flavor = objects.Flavor(vcpus=2, memory_mb=4096, extra_specs={'zovn:model': model})
    return objects.RequestSpec(instance_uuid=uuid, flavor=flavor, scheduler_hints=hints)


def passing(names, spec_obj):
    handler = filters.HostFilterHandler()
    found = handler.get_matching_classes(['zovn_nova.ZovnFilter'])
    assert found == [zovn_nova.ZovnFilter], found
    kept = handler.get_filtered_objects([it() for it in found], map(host, names), spec_obj)
    return [it.host for it in kept]


def weighed(names, spec_obj):
    handler = weights.HostWeightHandler()
    found = handler.get_matching_classes(['zovn_nova.ZovnWeigher'])
    assert found == [zovn_nova.ZovnWeigher], found
    kept = handler.get_weighed_objects([it() for it in found], list(map(host, names)), spec_obj)
    return [(it.obj.host, it.weight) for it in kept]


def main(url, encrypted, ca, certificate, key):
    CONF.set_override('url', url, 'zovn')
    # n1 is full, n2 has some, n3 is small, n4 is empty, and nobody knows n5.
    every = ['n1', 'n2', 'n3', 'n4', 'n5']
    assert passing(every, spec('web')) == ['n2', 'n3', 'n4'], passing(every, spec('web'))
    assert passing(every, spec('loud')) == ['n3', 'n4'], passing(every, spec('loud'))
    assert passing([], spec('web')) == []
    ranked = weighed(['n2', 'n4'], spec('web'))
    assert [it[0] for it in ranked] == ['n4', 'n2'], ranked
    assert 1 > ranked[0][1] > ranked[1][1] > 0, ranked
    CONF.set_override('weight_multiplier', -1.0, 'zovn')
    assert weighed(['n2', 'n4'], spec('web'))[0][0] == 'n2'
    CONF.clear_override('weight_multiplier', 'zovn')
    # The weigher's answer is assumed: n4 has no room for a second loud one.
    weighed(['n1', 'n4'], spec('loud'))
    other = '0d5f4a4e-5f0e-4a8e-8a5e-2f1f3f2d8c12'
    assert passing(['n4'], spec('loud', other)) == []
    # A rebuild stays where it is.
    assert passing(['n1'], spec('web', _nova_check_type=['rebuild'])) == ['n1']
    # By another name the plan knows none of them.
    CONF.set_override('host_name', 'nodename', 'zovn')
    assert passing(every, spec('web')) == []
    CONF.clear_override('host_name', 'zovn')
    for there in ['http://127.0.0.1:1', url + '/nowhere', 'nonsense']:
        CONF.set_override('url', there, 'zovn')
        assert passing(every, spec('web')) == every
        assert weighed(['n2', 'n4'], spec('web')) == [('n2', 0.0), ('n4', 0.0)]
        CONF.set_override('on_failure', 'closed', 'zovn')
        assert passing(every, spec('web')) == []
        CONF.set_override('on_failure', 'open', 'zovn')
    # By TLS, to a planner that wants to know who asks.
    CONF.set_override('on_failure', 'closed', 'zovn')
    CONF.set_override('url', encrypted, 'zovn')
    assert passing(every, spec('web')) == []
    CONF.set_override('cafile', ca, 'zovn')
    assert passing(every, spec('web')) == []
    CONF.set_override('certfile', certificate, 'zovn')
    CONF.set_override('keyfile', key, 'zovn')
    assert passing(every, spec('web')) == ['n2', 'n3', 'n4'], passing(every, spec('web'))
    print('zovn_nova: passed')


if __name__ == '__main__':
    main(*sys.argv[1:])
