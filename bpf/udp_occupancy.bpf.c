// How full the UDP sockets of the namespaces we serve are, published where userspace reads it without a system call.
//
//      datagram queued ─┐                       ┌─ sockets[]  one slot each: occupied, limit, whose it is
//      datagram read ───┼─▶ publish(sock, slot) ┤
//      datagram lost ───┘                       └─ bell       rung when a slot has the room that is awaited
//      iterator ────────▶ slot for each socket  ┐
//      socket closed ───▶ slot free again       ┴─ journal[]  numbers of slots that changed hands, in order
//
// A socket gets its slot with its first datagram, or from the iterator if it is older than we are, and keeps it until
// it is closed. A socket without a slot is therefore empty. Trace points see the whole host: a map of namespaces says
// whose sockets count.
//
// The layouts below are those of crates/udp-gate/src/programs.rs. Kernel structures are declared as far as they are
// used, and relocated at load time (CO-RE), so that the machine that builds this needs no type information of the
// machine that runs it.

#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#define AF_INET6 10
#define IPPROTO_UDP 17
#define MSG_PEEK 2

#define SLOTS 16384
#define SHARE (SLOTS / 4) // The most slots of one namespace.
#define JOURNAL 4096
#define NAMESPACES 4096
#define BELL_BYTES 4096

char LICENSE[] SEC("license") = "GPL";

// ---- The kernel's side --------------------------------------------------------------------------------------------

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct in6_addr {
	union {
		__u32 u6_addr32[4];
	} in6_u;
};

struct sock_common {
	__u32 skc_daddr;
	__u32 skc_rcv_saddr;
	__u16 skc_dport;
	__u16 skc_num;
	unsigned short skc_family;
	unsigned char skc_ipv6only : 1;
	int skc_bound_dev_if;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

typedef struct {
	int counter;
} atomic_t;

struct sock {
	struct sock_common __sk_common;
	struct {
		atomic_t rmem_alloc;
	} sk_backlog;
	int sk_rcvbuf;
	__u16 sk_protocol;
};

struct udp_sock {
	unsigned char encap_type;
};

struct bpf_iter__udp {
	union {
		struct udp_sock *udp_sk; // Begins with its struct sock.
	};
};

#pragma clang attribute pop

// ---- Userspace's side ---------------------------------------------------------------------------------------------

// Which datagrams a socket is for. Addresses in network byte order, IPv4 as ::ffff:a.b.c.d; ports in host order.
struct name {
	__u32 local[4];
	__u32 remote[4];
	__u16 local_port; // 0: the slot is free.
	__u16 remote_port; // 0: not connected.
	__u16 family;
	__u16 v6_only;
	__u32 device; // It hears this one only; 0: all.
	__u32 namespace; // Inode number.
};

struct slot {
	__u32 occupied; // Bytes of buffer in use (sk_rmem_alloc).
	__u32 limit; // Bytes of buffer allowed (sk_rcvbuf).
	__u32 awaited; // Ring the bell once so many bytes are free, then set this to 0. Set by userspace.
	__u32 reads; // How often something was read from it: the bytes in use follow in steps of a quarter of the buffer.
	__u64 queued; // Datagrams, since the socket has the slot.
	__u64 lost; // Datagrams that found no room.
	__u64 padding[4];
	struct name name; // Begins a cache line: it is read rarely, and written more rarely.
	__u64 more_padding[2];
};

_Static_assert(sizeof(struct name) == 48, "as in userspace");
_Static_assert(sizeof(struct slot) == 128, "as in userspace");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SLOTS);
	__type(key, __u32);
	__type(value, struct slot);
} sockets SEC(".maps");

// Entry n % JOURNAL is the n-th change: its number n + 1 in the upper half, the slot's in the lower.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, JOURNAL);
	__type(key, __u32);
	__type(value, __u64);
} journal SEC(".maps");

enum { CHANGES, TAKEN, COUNTERS };

// How many changes the journal has seen, and how many slots were ever taken.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, COUNTERS);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, BELL_BYTES);
} bell SEC(".maps");

struct share {
	__u64 slots; // Taken now.
	__u64 untracked; // How often a socket found no slot.
	__u64 lost; // Datagrams that found no room.
};

// The namespaces that we serve, by inode number.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, NAMESPACES);
	__type(key, __u32);
	__type(value, struct share);
} namespaces SEC(".maps");

// ---- Between them -------------------------------------------------------------------------------------------------

// In place of a slot's number. Slot 0 is nobody's.
#define NO_SLOT 0
#define CLOSED (~0u)

// Which slot a socket has.
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u32);
} places SEC(".maps");

// Slots of closed sockets, the longest free first: who still writes to one as it closes does not hit its next owner.
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, SLOTS);
	__type(value, __u32);
} vacant SEC(".maps");

static __always_inline __u64 *counter(__u32 which)
{
	return bpf_map_lookup_elem(&counters, &which);
}

static __always_inline struct slot *slot_at(__u32 index)
{
	return bpf_map_lookup_elem(&sockets, &index);
}

static __always_inline struct share *share_of(__u32 namespace)
{
	return bpf_map_lookup_elem(&namespaces, &namespace);
}

static __always_inline void note_change(__u32 index)
{
	__u64 *changes = counter(CHANGES);
	if (!changes)
		return;
	__u64 number = __sync_fetch_and_add(changes, 1);
	__u32 at = number % JOURNAL;
	__u64 *entry = bpf_map_lookup_elem(&journal, &at);
	if (entry) // Atomic: whoever reads the entry also sees the slot as it was written before.
		__sync_lock_test_and_set(entry, (number + 1) << 32 | index);
}

static __always_inline void ring(struct slot *slot)
{
	// If the ring is full, userspace has not answered earlier bells and is awake already.
	if (__sync_lock_test_and_set(&slot->awaited, 0)) {
		__u32 nothing = 0;
		bpf_ringbuf_output(&bell, &nothing, sizeof(nothing), BPF_RB_FORCE_WAKEUP);
	}
}

static __always_inline void read_name(struct sock *sk, struct name *name)
{
	name->local_port = sk->__sk_common.skc_num;
	name->remote_port = __builtin_bswap16(sk->__sk_common.skc_dport);
	name->family = sk->__sk_common.skc_family;
	name->device = sk->__sk_common.skc_bound_dev_if;
	name->namespace = sk->__sk_common.skc_net.net->ns.inum;
	if (name->family == AF_INET6) {
		name->v6_only = BPF_CORE_READ_BITFIELD(sk, __sk_common.skc_ipv6only);
		for (int i = 0; i < 4; i++) {
			name->local[i] = sk->__sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32[i];
			name->remote[i] = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[i];
		}
	} else {
		name->local[2] = name->remote[2] = __builtin_bswap32(0xffff);
		name->local[3] = sk->__sk_common.skc_rcv_saddr;
		name->remote[3] = sk->__sk_common.skc_daddr;
	}
}

// A slot for a socket that has none yet; null if there is none left or the socket is not one that we serve.
static __always_inline struct slot *take_slot(struct sock *sk)
{
	struct share *share = share_of(sk->__sk_common.skc_net.net->ns.inum);
	if (!share)
		return 0;
	__u32 *place = bpf_sk_storage_get(&places, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!place || *place == CLOSED)
		return 0;

	if (share->slots >= SHARE) {
		__sync_fetch_and_add(&share->untracked, 1);
		return 0;
	}
	__u32 index;
	if (bpf_map_pop_elem(&vacant, &index)) {
		__u64 *taken = counter(TAKEN);
		if (!taken)
			return 0;
		index = 1 + __sync_fetch_and_add(taken, 1);
	}
	struct slot *slot = slot_at(index);
	if (!slot) {
		__u64 *taken = counter(TAKEN);
		if (taken)
			__sync_fetch_and_add(taken, -1);
		__sync_fetch_and_add(&share->untracked, 1);
		return 0;
	}
	struct name name = {};
	read_name(sk, &name);
	slot->name = name;
	slot->occupied = slot->awaited = 0;
	slot->limit = sk->sk_rcvbuf;
	slot->queued = slot->lost = 0;

	// Two datagrams may be the socket's first, on two processors; or it was closed meanwhile.
	__u32 before = __sync_val_compare_and_swap(place, NO_SLOT, index);
	if (before != NO_SLOT) {
		slot->name.local_port = 0;
		bpf_map_push_elem(&vacant, &index, 0);
		return before == CLOSED ? 0 : slot_at(before);
	}
	__sync_fetch_and_add(&share->slots, 1);
	note_change(index);
	return slot;
}

static __always_inline struct slot *slot_of(struct sock *sk)
{
	__u32 *place = bpf_sk_storage_get(&places, sk, 0, 0);
	if (!place || *place == NO_SLOT || *place == CLOSED)
		return 0;
	return slot_at(*place);
}

// A socket that connects or disconnects hears other datagrams from then on.
static __always_inline void rename(struct sock *sk, struct slot *slot)
{
	struct name now = {};
	read_name(sk, &now);
	__u64 *new = (__u64 *)&now, *old = (__u64 *)&slot->name;
	__u64 differs = 0;
	for (unsigned int i = 0; i < sizeof(now) / sizeof(*new); i++)
		differs |= new[i] ^ old[i];
	if (!differs || !now.local_port)
		return;
	__u32 *place = bpf_sk_storage_get(&places, sk, 0, 0);
	if (!place || *place == CLOSED)
		return;
	slot->name = now;
	note_change(*place);
	if (*(volatile __u32 *)place == CLOSED) // Meanwhile: the slot is free and must look it.
		slot->name.local_port = 0;
}

static __always_inline void publish(struct sock *sk, struct slot *slot)
{
	rename(sk, slot);
	slot->limit = sk->sk_rcvbuf;
	// Store, full barrier, read again: whoever changes the value after our last look publishes after us, so that a
	// stale "full" cannot stay.
	__u32 occupied;
	for (int i = 0; i < 16; i++) {
		occupied = sk->sk_backlog.rmem_alloc.counter;
		__sync_lock_test_and_set(&slot->occupied, occupied);
		if (*(volatile int *)&sk->sk_backlog.rmem_alloc.counter == (int)occupied)
			break;
	}
	__u32 awaited = *(volatile __u32 *)&slot->awaited;
	if (awaited && (!occupied || occupied + awaited <= slot->limit))
		ring(slot);
}

// ---- Programs -----------------------------------------------------------------------------------------------------

// A socket has something to read: for UDP, a datagram was queued, and its bytes counted before.
SEC("tp_btf/sk_data_ready")
int udp_queued(__u64 *context)
{
	struct sock *sk = (struct sock *)context[0];
	if (sk->sk_protocol != IPPROTO_UDP)
		return 0;
	struct slot *slot = slot_of(sk);
	if (!slot)
		slot = take_slot(sk);
	if (!slot)
		return 0;
	publish(sk, slot);
	__sync_fetch_and_add(&slot->queued, 1);
	return 0;
}

// A read from a socket has ended, and its bytes were given back before.
SEC("tp_btf/sock_recv_length")
int udp_read(__u64 *context)
{
	struct sock *sk = (struct sock *)context[0];
	if (sk->sk_protocol != IPPROTO_UDP)
		return 0;
	struct slot *slot = slot_of(sk);
	if (!slot)
		return 0;
	publish(sk, slot);
	// To look at a datagram, or in vain for one, takes none.
	if ((int)context[1] >= 0 && !((int)context[2] & MSG_PEEK))
		__sync_fetch_and_add(&slot->reads, 1);
	return 0;
}

// A datagram found no room: what this gate is there to prevent.
SEC("tp_btf/udp_fail_queue_rcv_skb")
int udp_lost(__u64 *context)
{
	struct sock *sk = (struct sock *)context[1];
	struct share *share = share_of(sk->__sk_common.skc_net.net->ns.inum);
	if (share)
		__sync_fetch_and_add(&share->lost, 1);
	struct slot *slot = slot_of(sk);
	if (!slot)
		return 0;
	publish(sk, slot);
	__sync_fetch_and_add(&slot->lost, 1);
	return 0;
}

// Run in a namespace: gives every socket there a slot, and publishes what no trace point told of. A tunnel's socket
// gets none: it keeps no datagram, but unwraps it for a socket that is not told by its addresses.
SEC("iter/udp")
int udp_survey(struct bpf_iter__udp *context)
{
	struct udp_sock *udp = context->udp_sk;
	struct sock *sk = (struct sock *)udp;
	if (!sk || sk->sk_protocol != IPPROTO_UDP)
		return 0;
	struct slot *slot = slot_of(sk);
	if (!slot && !udp->encap_type)
		slot = take_slot(sk);
	if (slot)
		publish(sk, slot);
	return 0;
}

// A socket was closed by its last user. Datagrams may still come until it has left the kernel's tables: the mark
// keeps them from taking a slot that nobody would free.
SEC("cgroup/sock_release")
int udp_closed(struct bpf_sock *sk)
{
	if (sk->protocol != IPPROTO_UDP)
		return 1;
	__u32 *place = bpf_sk_storage_get(&places, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!place)
		return 1;
	__u32 index = __sync_lock_test_and_set(place, CLOSED);
	struct slot *slot = slot_at(index);
	if (index == NO_SLOT || !slot)
		return 1;
	struct share *share = share_of(slot->name.namespace);
	if (share && share->slots) // It may be served anew since the socket took its slot.
		__sync_fetch_and_add(&share->slots, -1);
	slot->name.local_port = 0;
	__sync_lock_test_and_set(&slot->occupied, 0);
	note_change(index);
	ring(slot);
	bpf_map_push_elem(&vacant, &index, 0);
	return 1;
}
