// Partition-Aggregate on the zOVN paper's fat tree, in ns-3: what `zovn sim` is compared with (see `compare`).
//
//     --racks … --gap     the scenario: topology, links, queues, messages, TCP
//     --rows FILE         a line for each query: when it began, on which server, how long it took (ns)
//     standard output     what the run cost and lost, as one JSON object
//
// Queries are drawn by the same generator, in the same order, as in `zovn sim`: both simulate the same ones. Links, queues,
// IP and TCP are ns-3's own. Ours are the application, the choice among equal paths (3.37 has none by flow), and two mends
// that later versions of ns-3 have too: TcpTxBuffer::NextSeg and Reno.

#include <ns3/core-module.h>
#include <ns3/internet-module.h>
#include <ns3/network-module.h>
#include <ns3/point-to-point-module.h>

#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <fstream>
#include <map>
#include <set>
#include <tuple>
#include <vector>

using namespace ns3;

/// What to send next in a recovery (RFC 6675 §4, NextSeg), in place of the library's, which sends segments again that were
/// sent behind all that is known to have arrived, and so need not be missing: ns-3's issue 805, mended in its version 3.43.
/// The library calls its exported functions by name, so that a program's take their place.
bool
TcpTxBuffer::NextSeg(SequenceNumber32* begin, SequenceNumber32* end, bool in_recovery) const
{
    SequenceNumber32 at = m_firstByteSeq, doubtful;
    bool is_doubtful = false;
    for (auto item : m_sentList)
    {
        if (!item->m_retrans && !item->m_sacked)
        {
            if (item->m_lost)
            {
                // Rule 1.
                *begin = at;
                *end = at + m_segmentSize;
                return true;
            }
            if (in_recovery && !is_doubtful && at < m_highestSack.second)
            {
                is_doubtful = true;
                doubtful = at;
            }
        }
        at += item->m_packet->GetSize();
    }
    if (SizeFromSequence(at) > 0)
    {
        // Rule 2.
        uint32_t window = m_rWndCallback();
        *begin = at;
        *end = at + std::min(m_segmentSize, window - std::min(window, m_sentSize));
        return m_sentSize <= window;
    }
    // Rule 3. ns-3 has no rule 4.
    *begin = doubtful;
    *end = doubtful + m_segmentSize;
    return is_doubtful;
}

namespace
{

struct Options
{
    uint32_t racks{4}, chassis{4}, servers{16}, tors{4}, cores{16};
    std::string rate{"10Gbps"}, delay{"500ns"}, gap_between_frames{"0ns"};
    std::string switch_queue{"1MB"}, host_queue{"2MB"};
    uint32_t mtu{1500}, request{20000}, reply{20000}, queries{100};
    /// Whether a server is one machine in every role, or three, one for each.
    bool one_machine{true};
    double gap_ns{1e6};
    uint64_t seed{1};
    std::string rows;
    std::string rto_min{"200ms"}, delayed_ack{"100ms"};
    uint32_t initial_window{10}, receive_buffer{2 << 20};
};

Options options;

/// `units::Rng`: xoshiro256**, seeded by SplitMix64.
class Rng
{
  public:
    explicit Rng(uint64_t seed)
    {
        for (auto& word : state)
        {
            uint64_t z = seed += 0x9e3779b97f4a7c15;
            z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
            z = (z ^ z >> 27) * 0x94d049bb133111eb;
            word = z ^ z >> 31;
        }
    }

    uint64_t Next()
    {
        auto& [a, b, c, d] = state;
        uint64_t out = Rotate(b * 5, 7) * 9, t = b << 17;
        c ^= a;
        d ^= b;
        b ^= c;
        a ^= d;
        c ^= t;
        d = Rotate(d, 45);
        return out;
    }

    uint64_t Below(uint64_t bound)
    {
        for (uint64_t threshold = -bound % bound;;)
        {
            auto product = static_cast<unsigned __int128>(Next()) * bound;
            if (static_cast<uint64_t>(product) >= threshold)
            {
                return product >> 64;
            }
        }
    }

    /// The gaps of a Poisson process.
    double Exponential(double mean)
    {
        return -mean * std::log(1.0 - (Next() >> 11) * 0x1p-53);
    }

  private:
    uint64_t state[4];

    static uint64_t Rotate(uint64_t x, int bits)
    {
        return x << bits | x >> (64 - bits);
    }
};

/// The finalizer of MurmurHash3.
uint32_t
Mix(uint32_t x)
{
    x = (x ^ x >> 16) * 0x85ebca6b;
    x = (x ^ x >> 13) * 0xc2b2ae35;
    return x ^ x >> 16;
}

uint32_t
ServerCount()
{
    return options.racks * options.chassis * options.servers;
}

/// Linux's Reno, with a window that grows only while it limits the sender (RFC 7661; Linux's tcp_cwnd_validate). That of
/// ns-3.37 grows by whatever is acknowledged: ns-3's issue 966, mended in its version 3.42.
class Reno : public TcpLinuxReno
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId id = TypeId("Reno").SetParent<TcpLinuxReno>().AddConstructor<Reno>();
        return id;
    }

    void IncreaseWindow(Ptr<TcpSocketState> tcb, uint32_t segments) override
    {
        // As it was before this acknowledgement.
        uint32_t in_flight = tcb->m_bytesInFlight + tcb->m_lastAckedSackedBytes;
        uint32_t out = tcb->m_highTxMark.Get() - tcb->m_lastAckedSeq + tcb->m_lastAckedSackedBytes;
        bool limited = in_flight + tcb->m_segmentSize > tcb->m_cWnd;
        if (tcb->m_lastAckedSeq >= m_flight_end || limited || (!m_limited && out > m_most_out))
        {
            m_limited = limited;
            m_most_out = out;
            m_flight_end = tcb->m_highTxMark;
        }
        bool is_slow_start = tcb->m_cWnd < tcb->m_ssThresh;
        if (m_limited || (is_slow_start && tcb->m_cWnd < 2 * m_most_out))
        {
            TcpLinuxReno::IncreaseWindow(tcb, segments);
        }
    }

    Ptr<TcpCongestionOps> Fork() override
    {
        return CopyObject<Reno>(this);
    }

  private:
    bool m_limited{false};
    uint32_t m_most_out{0};
    SequenceNumber32 m_flight_end{0};
};

/// A server's address says where it is.
Ipv4Address
AddressOf(uint32_t server)
{
    return Ipv4Address(0x0a000001 + server);
}

/// The ways of the fat tree. A server has one; a switch that has several up draws one from the flow's addresses.
class Ways : public Ipv4RoutingProtocol
{
  public:
    enum Tier
    {
        SERVER,
        CHASSIS,
        TOR,
        CORE
    };

    Ways(Tier tier, uint32_t index)
        : m_tier(tier),
          m_index(index)
    {
    }

    /// Interface 0 is the loopback; then come those down, in order, then those up.
    uint32_t Choose(Ipv4Address from, Ipv4Address to) const
    {
        uint32_t server = to.Get() - AddressOf(0).Get();
        uint32_t chassis = server / options.servers, rack = chassis / options.chassis;
        uint32_t drawn = Mix(Mix(from.Get() * 0x9e3779b9 ^ to.Get()) ^ (m_tier << 16 | m_index) * 0x85ebca6b);
        switch (m_tier)
        {
        case SERVER:
            return server == m_index ? 0 : 1;
        case CHASSIS:
            return chassis == m_index ? 1 + server % options.servers
                                      : 1 + options.servers + drawn % options.tors;
        case TOR:
            return rack == m_index / options.tors ? 1 + chassis % options.chassis
                                                  : 1 + options.chassis + drawn % (options.cores / options.tors);
        default:
            return 1 + rack;
        }
    }

    Ptr<Ipv4Route> RouteOutput(Ptr<Packet>,
                               const Ipv4Header& header,
                               Ptr<NetDevice>,
                               Socket::SocketErrno& error) override
    {
        error = Socket::ERROR_NOTERROR;
        return m_routes[Choose(AddressOf(m_index), header.GetDestination())];
    }

    bool RouteInput(Ptr<const Packet> packet,
                    const Ipv4Header& header,
                    Ptr<const NetDevice> device,
                    UnicastForwardCallback forward,
                    MulticastForwardCallback,
                    LocalDeliverCallback deliver,
                    ErrorCallback) override
    {
        if (m_tier == SERVER)
        {
            deliver(packet, header, m_ipv4->GetInterfaceForDevice(device));
        }
        else
        {
            forward(m_routes[Choose(header.GetSource(), header.GetDestination())], packet, header);
        }
        return true;
    }

    void SetIpv4(Ptr<Ipv4> ipv4) override
    {
        m_ipv4 = ipv4;
    }

    /// All interfaces are there.
    void Complete()
    {
        for (uint32_t i = 0; i < m_ipv4->GetNInterfaces(); i++)
        {
            auto route = Create<Ipv4Route>();
            route->SetSource(AddressOf(m_index));
            route->SetGateway(Ipv4Address::GetAny());
            route->SetOutputDevice(m_ipv4->GetNetDevice(i));
            m_routes.push_back(route);
        }
    }

    void NotifyInterfaceUp(uint32_t) override
    {
    }

    void NotifyInterfaceDown(uint32_t) override
    {
    }

    void NotifyAddAddress(uint32_t, Ipv4InterfaceAddress) override
    {
    }

    void NotifyRemoveAddress(uint32_t, Ipv4InterfaceAddress) override
    {
    }

    void PrintRoutingTable(Ptr<OutputStreamWrapper>, Time::Unit) const override
    {
    }

  private:
    Tier m_tier;
    uint32_t m_index;
    Ptr<Ipv4> m_ipv4;
    std::vector<Ptr<Ipv4Route>> m_routes;
};

/// The network.
class Network
{
  public:
    std::vector<Ptr<Node>> servers;

    Network()
    {
        auto& o = options;
        servers = Nodes(Ways::SERVER, ServerCount());
        auto chassis = Nodes(Ways::CHASSIS, o.racks * o.chassis);
        auto tors = Nodes(Ways::TOR, o.racks * o.tors);
        auto cores = Nodes(Ways::CORE, o.cores);
        for (uint32_t n = 0; n < servers.size(); n++)
        {
            Connect(servers[n], chassis[n / o.servers]);
        }
        for (uint32_t n = 0; n < chassis.size(); n++)
        {
            for (uint32_t place = 0; place < o.tors; place++)
            {
                Connect(chassis[n], tors[n / o.chassis * o.tors + place]);
            }
        }
        for (uint32_t n = 0; n < tors.size(); n++)
        {
            uint32_t share = o.cores / o.tors, first = n % o.tors * share;
            for (uint32_t core = first; core < first + share; core++)
            {
                Connect(tors[n], cores[core]);
            }
        }
        for (auto& way : m_ways)
        {
            way->Complete();
        }
    }

    /// Frames that were put on links: every frame passes its device's queue, and none leaves it but for the link.
    uint64_t Hops() const
    {
        uint64_t sum = 0;
        for (auto& queue : m_queues)
        {
            sum += queue->GetTotalReceivedPackets() - queue->GetNPackets();
        }
        return sum;
    }

    uint64_t Drops() const
    {
        uint64_t sum = 0;
        for (auto& queue : m_queues)
        {
            sum += queue->GetTotalDroppedPackets();
        }
        return sum;
    }

  private:
    std::vector<Ptr<Queue<Packet>>> m_queues;
    std::vector<Ptr<Ways>> m_ways;

    std::vector<Ptr<Node>> Nodes(Ways::Tier tier, uint32_t count)
    {
        InternetStackHelper internet;
        internet.SetIpv6StackInstall(false);
        std::vector<Ptr<Node>> nodes;
        for (uint32_t n = 0; n < count; n++)
        {
            auto node = CreateObject<Node>();
            internet.Install(node);
            auto way = CreateObject<Ways>(tier, n);
            node->GetObject<Ipv4>()->SetRoutingProtocol(way);
            m_ways.push_back(way);
            nodes.push_back(node);
        }
        return nodes;
    }

    void Connect(Ptr<Node> lower, Ptr<Node> upper)
    {
        auto channel = CreateObject<PointToPointChannel>();
        channel->SetAttribute("Delay", StringValue(options.delay));
        for (auto& node : {lower, upper})
        {
            auto device = CreateObject<PointToPointNetDevice>();
            device->SetAddress(Mac48Address::Allocate());
            device->SetDataRate(DataRate(options.rate));
            device->SetInterframeGap(Time(options.gap_between_frames));
            device->SetMtu(options.mtu);
            bool is_server = node->GetId() < ServerCount();
            auto queue = CreateObject<DropTailQueue<Packet>>();
            queue->SetMaxSize(QueueSize(is_server ? options.host_queue : options.switch_queue));
            device->SetQueue(queue);
            m_queues.push_back(queue);
            node->AddDevice(device);
            device->Attach(channel);
            // No queueing discipline and no back-pressure: the device's queue is the only one.
            auto ipv4 = node->GetObject<Ipv4>();
            auto interface = ipv4->AddInterface(device);
            auto address = is_server ? AddressOf(node->GetId()) : Ipv4Address(0x0b000000 + m_queues.size());
            ipv4->AddAddress(interface, Ipv4InterfaceAddress(address, Ipv4Mask::GetOnes()));
            ipv4->SetUp(interface);
        }
    }
};

enum Step
{
    REQUEST,
    WORK,
    RESULT,
    REPLY
};

enum Role
{
    AGGREGATOR,
    MID,
    WORKER
};

/// A server in a role.
struct Machine
{
    uint32_t server;
    uint32_t slot;

    bool operator<(const Machine& other) const
    {
        return std::tie(server, slot) < std::tie(other.server, other.slot);
    }

    bool operator==(const Machine& other) const
    {
        return server == other.server && slot == other.slot;
    }
};

Machine
In(Role role, uint32_t server)
{
    return {server, options.one_machine ? 0u : uint32_t(role)};
}

/// What a message says.
struct Note
{
    Step step;
    uint32_t query;
    uint32_t branch;
};

/// One side of a connection. The other side's number differs in the lowest bit.
struct End
{
    Machine at;
    Ptr<Socket> socket;
    /// Bytes in all. The first was to break the silence, see `Queries::Use`.
    uint64_t written{1}, heard{0};
    /// Messages on their way to this side, each with the position of its end in the stream.
    std::deque<std::pair<uint64_t, Note>> due;
};

struct Branch
{
    Machine mid;
    uint32_t missing;
};

struct Query
{
    Time begins;
    Machine aggregator;
    std::vector<Branch> branches;
    uint32_t missing;
    Time took;
};

/// Queries over two tiers of aggregators, as `sim::work::queries` has them.
class Queries
{
  public:
    explicit Queries(const Network& network)
        : m_network(network)
    {
        // The first workload's own randomness.
        Rng rng(options.seed ^ 0x9e3779b97f4a7c15);
        int64_t now_ps = 0;
        for (uint32_t n = 0; n < options.queries; n++)
        {
            // In the order of `Queries::go_on`: at each arrival the next gap is drawn, then this query's machines.
            if (n == 0)
            {
                now_ps = static_cast<int64_t>(rng.Exponential(options.gap_ns) * 1000);
            }
            int64_t next_ps = now_ps;
            if (n + 1 < options.queries)
            {
                next_ps += static_cast<int64_t>(rng.Exponential(options.gap_ns) * 1000);
            }
            m_queries.push_back(Draw(rng, PicoSeconds(now_ps)));
            now_ps = next_ps;
        }
    }

    /// Opens all connections, and asks every query when they stand.
    void Schedule()
    {
        Listen();
        std::set<std::pair<Machine, Machine>> pairs;
        for (auto& query : m_queries)
        {
            for (auto& [mid, _] : query.branches)
            {
                pairs.insert(std::minmax(query.aggregator, mid));
                for (auto& worker : WorkersOf(mid))
                {
                    pairs.insert(std::minmax(worker, mid));
                }
            }
        }
        m_ends.resize(2 * pairs.size());
        auto at = Seconds(0);
        uint32_t number = 0;
        for (auto& [from, to] : pairs)
        {
            Simulator::Schedule(at, &Queries::Open, this, number, from, to);
            m_lines[{from, to}] = number;
            number += 2;
            at += MicroSeconds(5);
        }
        m_start = at + Seconds(1);
        Simulator::Schedule(m_start, &Queries::Start, this);
        for (uint32_t n = 0; n < m_queries.size(); n++)
        {
            Simulator::Schedule(m_start + m_queries[n].begins, &Queries::Begin, this, n);
        }
    }

    uint32_t Complete() const
    {
        return m_complete;
    }

    void Report() const
    {
        timespec cpu;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
        rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        double mean = 0;
        std::ofstream rows;
        if (!options.rows.empty())
        {
            rows.open(options.rows);
        }
        for (auto& query : m_queries)
        {
            rows << query.begins.GetPicoSeconds() / 1000 << ',' << query.aggregator.server << ','
                 << query.took.GetPicoSeconds() / 1000 << '\n';
            mean += query.took.GetSeconds() * 1e6 / m_queries.size();
        }
        printf("{\"queries\": %u, \"cpu_s\": %.6f, \"setup_cpu_s\": %.6f, \"packet_hops\": %lu, \"events\": %lu, "
               "\"rss_bytes\": %lu, \"drops\": %lu, \"setup_drops\": %lu, \"timeouts\": %lu, \"connections\": %zu, "
               "\"simulated_s\": %.9f, \"fct_mean_us\": %.3f}\n",
               m_complete,
               cpu.tv_sec + cpu.tv_nsec * 1e-9 - m_cpu_before,
               m_cpu_before,
               m_network.Hops() - m_hops_before,
               Simulator::GetEventCount() - m_events_before,
               usage.ru_maxrss * 1024ul,
               m_network.Drops() - m_drops_before,
               m_drops_before,
               m_timeouts,
               m_ends.size() / 2,
               (Simulator::Now() - m_start).GetSeconds(),
               mean);
    }

  private:
    const Network& m_network;
    std::vector<Query> m_queries;
    std::vector<End> m_ends;
    std::map<std::pair<Machine, Machine>, uint32_t> m_lines;
    /// Connections that are being opened, by the client's address and port.
    std::map<std::pair<uint32_t, uint16_t>, uint32_t> m_opening;
    Time m_start;
    double m_cpu_before{0};
    uint64_t m_hops_before{0}, m_events_before{0}, m_drops_before{0}, m_timeouts{0};
    uint32_t m_complete{0};

    Query Draw(Rng& rng, Time begins)
    {
        Query query{begins, In(AGGREGATOR, rng.Below(ServerCount())), {}, 0, {}};
        for (uint32_t group = 0; group < options.racks * options.chassis; group++)
        {
            uint32_t first = group * options.servers;
            auto mid = In(MID, first + rng.Below(options.servers));
            if (mid == query.aggregator)
            {
                mid = In(MID, mid.server == first ? first + 1 : first);
            }
            query.branches.push_back({mid, 0});
        }
        query.missing = query.branches.size();
        return query;
    }

    static std::vector<Machine> WorkersOf(Machine mid)
    {
        std::vector<Machine> workers;
        uint32_t first = mid.server / options.servers * options.servers;
        for (uint32_t server = first; server < first + options.servers; server++)
        {
            if (auto worker = In(WORKER, server); !(worker == mid))
            {
                workers.push_back(worker);
            }
        }
        return workers;
    }

    void Listen()
    {
        for (uint32_t server = 0; server < ServerCount(); server++)
        {
            for (uint32_t slot = 0; slot < (options.one_machine ? 1 : 3); slot++)
            {
                auto socket = Socket::CreateSocket(m_network.servers[server], TcpSocketFactory::GetTypeId());
                socket->Bind(InetSocketAddress(AddressOf(server), 5000 + slot));
                socket->Listen();
                socket->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                          MakeCallback(&Queries::Accepted, this));
            }
        }
    }

    void Open(uint32_t number, Machine from, Machine to)
    {
        m_ends[number].at = from;
        m_ends[number + 1].at = to;
        auto socket = Socket::CreateSocket(m_network.servers[from.server], TcpSocketFactory::GetTypeId());
        socket->Bind();
        Address own;
        socket->GetSockName(own);
        m_opening[{from.server, InetSocketAddress::ConvertFrom(own).GetPort()}] = number + 1;
        socket->Connect(InetSocketAddress(AddressOf(to.server), 5000 + to.slot));
        Use(number, socket);
    }

    void Accepted(Ptr<Socket> socket, const Address& from)
    {
        auto peer = InetSocketAddress::ConvertFrom(from);
        uint32_t server = peer.GetIpv4().Get() - AddressOf(0).Get();
        Use(m_opening.at({server, peer.GetPort()}), socket);
    }

    void Use(uint32_t number, Ptr<Socket> socket)
    {
        m_ends[number].socket = socket;
        socket->SetRecvCallback(MakeCallback(&Queries::Receive, this).Bind(number));
        socket->TraceConnectWithoutContext("CongState", MakeCallback(&Queries::NoteState, this));
        // A new connection acknowledges its first segment at once, one that has been in use does not.
        socket->Send(Create<Packet>(1));
    }

    /// Timeouts are counted by what they begin: one that is followed by another without progress is one.
    void NoteState(TcpSocketState::TcpCongState_t, TcpSocketState::TcpCongState_t state)
    {
        m_timeouts += state == TcpSocketState::CA_LOSS;
    }

    /// Connections stand and are silent: from now on everything counts.
    void Start()
    {
        m_hops_before = m_network.Hops();
        m_drops_before = m_network.Drops();
        m_events_before = Simulator::GetEventCount();
        timespec cpu;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
        m_cpu_before = cpu.tv_sec + cpu.tv_nsec * 1e-9;
    }

    void Begin(uint32_t number)
    {
        auto& query = m_queries[number];
        for (uint32_t branch = 0; branch < query.branches.size(); branch++)
        {
            Send(query.aggregator, query.branches[branch].mid, {REQUEST, number, branch});
        }
    }

    void Send(Machine from, Machine to, Note note)
    {
        uint32_t first = m_lines.at(std::minmax(from, to));
        uint32_t number = from < to ? first : first + 1;
        uint32_t bytes = note.step == REQUEST || note.step == WORK ? options.request : options.reply;
        auto& end = m_ends[number];
        end.written += bytes;
        m_ends[number ^ 1].due.emplace_back(end.written, note);
        int taken = end.socket->Send(Create<Packet>(bytes));
        NS_ABORT_MSG_IF(taken != static_cast<int>(bytes), "a socket has no room");
    }

    void Receive(uint32_t number, Ptr<Socket> socket)
    {
        auto& end = m_ends[number];
        while (auto packet = socket->Recv())
        {
            end.heard += packet->GetSize();
        }
        while (!end.due.empty() && end.due.front().first <= end.heard)
        {
            auto note = end.due.front().second;
            end.due.pop_front();
            // Once the socket is done with the segment, or it would send before those that were told to send earlier.
            Simulator::ScheduleNow(&Queries::Hear, this, note, end.at, m_ends[number ^ 1].at);
        }
    }

    void Hear(Note note, Machine at, Machine from)
    {
        auto& query = m_queries[note.query];
        auto& branch = query.branches[note.branch];
        switch (note.step)
        {
        case REQUEST:
            for (auto& worker : WorkersOf(at))
            {
                Send(at, worker, {WORK, note.query, note.branch});
                branch.missing++;
            }
            break;
        case WORK:
            Send(at, from, {RESULT, note.query, note.branch});
            break;
        case RESULT:
            if (--branch.missing == 0)
            {
                Send(at, query.aggregator, {REPLY, note.query, note.branch});
            }
            break;
        case REPLY:
            if (--query.missing == 0)
            {
                query.took = Simulator::Now() - m_start - query.begins;
                if (++m_complete == m_queries.size())
                {
                    Simulator::Stop();
                }
            }
        }
    }
};

} // namespace

int
main(int argc, char* argv[])
{
    auto& o = options;
    CommandLine flags;
    flags.AddValue("racks", "racks", o.racks);
    flags.AddValue("chassis", "chassis in each rack", o.chassis);
    flags.AddValue("servers", "servers in each chassis", o.servers);
    flags.AddValue("tors", "top-of-rack switches in each rack", o.tors);
    flags.AddValue("cores", "core switches, a multiple of tors", o.cores);
    flags.AddValue("one-machine", "a server is one machine, not three", o.one_machine);
    flags.AddValue("rate", "of links", o.rate);
    flags.AddValue("delay", "of links", o.delay);
    flags.AddValue("frame-gap", "how long a transmitter rests after a frame", o.gap_between_frames);
    flags.AddValue("switch-queue", "what waits at a switch's output", o.switch_queue);
    flags.AddValue("host-queue", "what waits at a server's NIC", o.host_queue);
    flags.AddValue("mtu", "the largest IP packet", o.mtu);
    flags.AddValue("request", "a message down, in bytes", o.request);
    flags.AddValue("reply", "a message up, in bytes", o.reply);
    flags.AddValue("queries", "how many", o.queries);
    flags.AddValue("gap-ns", "the mean time between queries", o.gap_ns);
    flags.AddValue("seed", "what queries are drawn from", o.seed);
    flags.AddValue("rto-min", "the least retransmission timeout", o.rto_min);
    flags.AddValue("delayed-ack", "how long an acknowledgement waits for a second segment", o.delayed_ack);
    flags.AddValue("initial-window", "in segments", o.initial_window);
    flags.AddValue("receive-buffer", "in bytes", o.receive_buffer);
    flags.AddValue("rows", "a file for the queries", o.rows);
    flags.Parse(argc, argv);

    // A byte takes 800 ps at 10 Gb/s.
    Time::SetResolution(Time::PS);
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(Reno::GetTypeId()));
    // RFC 6675: the window falls at once. ns-3's default is proportional rate reduction.
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(TcpClassicRecovery::GetTypeId()));
    // IPv4's header, TCP's and timestamps: ns-3's segment size is the payload's.
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(o.mtu - 20 - 20 - 12));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(o.initial_window));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(Time(o.delayed_ack)));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(Time(o.rto_min)));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(o.receive_buffer));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1 << 30));

    Network network;
    Queries queries(network);
    queries.Schedule();
    Simulator::Stop(Seconds(1000));
    Simulator::Run();
    queries.Report();
    return queries.Complete() == o.queries ? 0 : 1;
}
