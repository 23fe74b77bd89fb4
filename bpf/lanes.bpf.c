// Which lane of its container's queue a frame takes: what is for a slow receiver waits apart from the rest.
//
//      frame ──▶ lane_of ──▶ the class of the interface's queue (htb) that it waits in
//                  ▲
//                lanes[]     what userspace has diverted: a socket's datagrams, or all for an Ethernet address
//
// The layouts and the rules below are those of crates/tap/src/lanes/key.rs: userspace tells by them by which lane a
// frame came. What takes no lane has no class, and waits in the common one.

#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define ETHERNET 14
#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_IPV6 0x86dd
#define IPPROTO_UDP 17

// More than userspace diverts.
#define KEYS 2048

char LICENSE[] SEC("license") = "GPL";

struct key {
	__u8 mac[6];
	__u16 port; // In network byte order; 0: all that is for the Ethernet address.
	__u32 address[4]; // IPv4 as ::ffff:a.b.c.d; all 0 with port 0.
};

_Static_assert(sizeof(struct key) == 24, "as in userspace");

// The minor number of the class that is a key's lane.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, KEYS);
	__type(key, struct key);
	__type(value, __u32);
} lanes SEC(".maps");

// Fills in the address and port of the socket that an untagged datagram is for, unless it is a fragment.
static __always_inline int read_socket(struct __sk_buff *skb, struct key *key)
{
	__u16 ethertype;
	__u8 protocol;
	__u32 payload;
	if (skb->vlan_present || bpf_skb_load_bytes(skb, 12, &ethertype, sizeof(ethertype)))
		return 0;
	if (ethertype == bpf_htons(ETHERTYPE_IPV4)) {
		__u8 first;
		__u16 fragment;
		if (bpf_skb_load_bytes(skb, ETHERNET, &first, sizeof(first)) ||
		    bpf_skb_load_bytes(skb, ETHERNET + 6, &fragment, sizeof(fragment)) ||
		    bpf_skb_load_bytes(skb, ETHERNET + 9, &protocol, sizeof(protocol)) ||
		    bpf_skb_load_bytes(skb, ETHERNET + 16, &key->address[3], sizeof(key->address[3])))
			return 0;
		if (fragment & bpf_htons(0x3fff))
			return 0;
		key->address[2] = bpf_htonl(0xffff);
		payload = ETHERNET + (first & 15) * 4;
	} else if (ethertype == bpf_htons(ETHERTYPE_IPV6)) {
		if (bpf_skb_load_bytes(skb, ETHERNET + 6, &protocol, sizeof(protocol)) ||
		    bpf_skb_load_bytes(skb, ETHERNET + 24, key->address, sizeof(key->address)))
			return 0;
		payload = ETHERNET + 40;
	} else {
		return 0;
	}
	return protocol == IPPROTO_UDP && !bpf_skb_load_bytes(skb, payload + 2, &key->port, sizeof(key->port));
}

SEC("classifier")
int lane_of(struct __sk_buff *skb)
{
	struct key socket = {}, receiver = {};
	__u32 *class = 0;
	if (bpf_skb_load_bytes(skb, 0, receiver.mac, sizeof(receiver.mac)))
		return TC_ACT_UNSPEC;
	__builtin_memcpy(socket.mac, receiver.mac, sizeof(socket.mac));
	if (read_socket(skb, &socket))
		class = bpf_map_lookup_elem(&lanes, &socket);
	if (!class)
		class = bpf_map_lookup_elem(&lanes, &receiver);
	if (!class)
		return TC_ACT_UNSPEC;
	skb->tc_classid = *class;
	return TC_ACT_OK;
}
