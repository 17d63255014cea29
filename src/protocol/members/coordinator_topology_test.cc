// Where members are: who may join, the site of the slices, the zones of replicas, the class of workers.
#include "protocol/coordinator/testing.h"

namespace leat::protocol {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

const topology::HostPlace kNorthA{"north", "a", ""}, kNorthB{"north", "b", ""}, kSouthA{"south", "a", ""};

class CoordinatorTopologyTest : public CoordinatorTest {
 protected:
  CoordinatorTopologyTest() { config_.max_servers = 8; }

  JoinReply JoinAt(Role role, const topology::HostPlace& place, const std::string& address = "",
                   const std::string& host = "host") {
    JoinRequest request;
    request.role = role;
    request.address = address;
    request.host = host;
    request.place = place;
    request.process = ++processes_;
    return std::get<JoinReply>(Call(request));
  }
  NodeId ServerAt(const topology::HostPlace& place) {
    return JoinAt(Role::kServer, place, "s" + std::to_string(processes_)).node;
  }
  void Begin() {
    Start({});
    Stream(100, 1000);
  }
  std::set<NodeId> Holders() const {
    std::set<NodeId> holders;
    for (const SliceLocation& slice : coordinator_->status().view.slices) holders.insert(slice.server);
    return holders;
  }
  void BeatAll(const std::vector<NodeId>& servers, int times = 2) {
    for (int i = 0; i < times; ++i) {
      now_ += milliseconds(100);
      for (const NodeId server : servers) SendServerHeartbeat(server);
      Take(coordinator_->OnTimer(now_));
    }
  }
  std::vector<std::string> Misplaced() const {
    std::vector<std::string> lines;
    for (const auto& [about, line] : coordinator_->status().misplaced) lines.push_back(line);
    return lines;
  }
  Member::State StateOf(NodeId node) const { return coordinator_->status().view.Find(node)->state; }

  uint64_t processes_ = 0;
};

TEST_F(CoordinatorTopologyTest, AllSlicesAreInOneSite) {
  Begin();
  const NodeId south = ServerAt(kSouthA), north1 = ServerAt(kNorthA);
  BeatAll({south, north1});
  EXPECT_THAT(Holders(), IsEmpty()) << "another server of a site may be about to join";
  const NodeId north2 = ServerAt(kNorthB);
  BeatAll({south, north1, north2});
  EXPECT_THAT(Holders(), UnorderedElementsAre(north1, north2));
}

TEST_F(CoordinatorTopologyTest, AFewServersOfASiteGoAheadAfterAWhile) {
  Begin();
  const NodeId south = ServerAt(kSouthA), north = ServerAt(kNorthA);
  BeatAll({south, north}, 30);
  EXPECT_THAT(Holders(), ElementsAre(north)) << "equally many: the first name";
}

TEST_F(CoordinatorTopologyTest, TheJobNamesASite) {
  config_.topology.server_site = "south";
  Begin();
  const NodeId north1 = ServerAt(kNorthA), north2 = ServerAt(kNorthB);
  BeatAll({north1, north2}, 30);
  EXPECT_THAT(Holders(), IsEmpty());
  EXPECT_THAT(Misplaced(), ElementsAre("servers: no host offers the site 'south'; there are: north"));
  const NodeId south = ServerAt(kSouthA);
  BeatAll({north1, north2, south}, 30);
  EXPECT_THAT(Holders(), ElementsAre(south));
  EXPECT_FALSE(coordinator_->DrainServer(now_, south).ok()) << "nobody else may take its slices";
}

TEST_F(CoordinatorTopologyTest, ServersMayBeInSeveralSites) {
  config_.topology.servers_anywhere = true;
  Begin();
  const NodeId south = ServerAt(kSouthA), north = ServerAt(kNorthA);
  BeatAll({south, north});
  EXPECT_THAT(Holders(), UnorderedElementsAre(south, north));
}

TEST_F(CoordinatorTopologyTest, SlicesLeaveTheirSiteOnlyIfNoServerIsLeftThere) {
  Begin();
  const NodeId north1 = ServerAt(kNorthA), north2 = ServerAt(kNorthB), south = ServerAt(kSouthA);
  BeatAll({north1, north2, south});
  Take(coordinator_->OnNodeLost(now_, north1));
  BeatAll({north2, south}, 30);
  EXPECT_THAT(Holders(), ElementsAre(north2)) << "although there is a spare server in the south";
  Take(coordinator_->OnNodeLost(now_, north2));
  BeatAll({south});
  EXPECT_THAT(Holders(), ElementsAre(NodeId())) << "one of them may come back";
  BeatAll({south}, 30);
  EXPECT_THAT(Holders(), ElementsAre(south));
}

TEST_F(CoordinatorTopologyTest, ServersOfAClassArePreferred) {
  config_.topology.server_class = "bandwidth";
  Begin();
  const NodeId slow = ServerAt({"", "", "cores"}), fast = ServerAt({"", "", "bandwidth"});
  BeatAll({slow, fast}, 30);
  EXPECT_THAT(Holders(), ElementsAre(fast));
}

TEST_F(CoordinatorTopologyTest, AZoneMapGivesPlacesAndRefusesOtherHosts) {
  config_.topology.hosts = {{"alpha", kNorthA}, {"beta", kNorthB}};
  Begin();
  const JoinReply reply = JoinAt(Role::kWorker, {}, "", "gamma");
  EXPECT_EQ(reply.status.code(), Code::kInvalidArgument);
  EXPECT_THAT(reply.status.message(), HasSubstr("host 'gamma' is not in the job's zone map"));
  const NodeId mapped = JoinAt(Role::kWorker, {}, "", "alpha").node;
  const NodeId own = JoinAt(Role::kWorker, {"", "c", ""}, "", "beta").node;
  const auto status = coordinator_->status();
  ASSERT_EQ(status.whereabouts.size(), 2u);
  EXPECT_EQ(status.whereabouts[0].node, mapped);
  EXPECT_EQ(status.whereabouts[0].place, kNorthA);
  EXPECT_EQ(status.whereabouts[1].node, own);
  EXPECT_EQ(status.whereabouts[1].place, (topology::HostPlace{"north", "c", ""}));
}

TEST_F(CoordinatorTopologyTest, PlacesOutliveTheCoordinator) {
  config_.term = 1;
  Begin();
  const NodeId south = ServerAt(kSouthA), north1 = ServerAt(kNorthA), north2 = ServerAt(kNorthB);
  BeatAll({south, north1, north2});
  ++config_.term;
  config_.take_over = true;
  Start({{}, journal_});
  Take(coordinator_->OnTimer(now_));
  Stream(100, 1000);
  const auto status = coordinator_->status();
  ASSERT_EQ(status.whereabouts.size(), 3u);
  EXPECT_EQ(status.whereabouts[0].place, kSouthA);
  // The only server that is left of the north gets all slices.
  BeatAll({south, north1, north2});
  Take(coordinator_->OnNodeLost(now_, north1));
  BeatAll({south, north2}, 30);
  EXPECT_THAT(Holders(), ElementsAre(north2));
}

TEST_F(CoordinatorTopologyTest, AFarRoleIsReported) {
  config_.topology.max_latency = milliseconds(20);
  Start({});
  Run();
  KeepAlive keep_alive{.node = worker_, .round_trip = milliseconds(15)};
  Call(keep_alive);
  EXPECT_THAT(Misplaced(), IsEmpty());
  keep_alive.round_trip = std::chrono::microseconds(45'200);
  Call(keep_alive);
  EXPECT_THAT(Misplaced(), ElementsAre("worker 0 is 45.2 ms from the coordinator (round trip), more than "
                                       "max_latency_ms 20"));
  ASSERT_EQ(coordinator_->status().whereabouts.size(), 1u);
  EXPECT_EQ(coordinator_->status().whereabouts[0].round_trip, keep_alive.round_trip);
}

TEST_F(CoordinatorTopologyTest, AFarRoleIsRefused) {
  config_.topology.max_latency = milliseconds(20);
  config_.topology.refuse_far = true;
  Begin();
  JoinRequest request;
  request.role = Role::kWorker;
  request.host = "far";
  EXPECT_EQ(std::get<JoinReply>(Call(request)).status.code(), Code::kUnavailable) << "it tries again";
  request.attempts = 3;
  request.round_trip = milliseconds(30);
  const Status refused = std::get<JoinReply>(Call(request)).status;
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("this worker on host far is 30 ms from the coordinator"));
  request.round_trip = milliseconds(19);
  EXPECT_TRUE(std::get<JoinReply>(Call(request)).status.ok());
  request.role = Role::kCoordinator;
  request.address = "standby";
  request.attempts = 0;
  EXPECT_TRUE(std::get<JoinReply>(Call(request)).status.ok()) << "a standby may be far away";
}

TEST_F(CoordinatorTopologyTest, AWorkerOfAnotherClassStandsBy) {
  config_.topology.worker_class = "cores";
  config_.workers = 2;
  Start({});
  Stream(100, 1000);
  a_ = JoinServer("a");
  b_ = JoinServer("b");
  BeatAll({a_, b_});
  const NodeId other = JoinAt(Role::kWorker, {"", "", "bandwidth"}).node;
  SendHeartbeat(other);
  const NodeId right = JoinAt(Role::kWorker, {"", "", "cores"}).node;
  SendHeartbeat(right);
  EXPECT_EQ(StateOf(other), Member::State::kStandby);
  EXPECT_THAT(SendHeartbeat(other, 1).leases, IsEmpty());
  EXPECT_EQ(SendHeartbeat(right, 1).leases.size(), 1u);
  // No second one of the class comes.
  now_ += config_.standby_wait;
  BeatAll({a_, b_});
  EXPECT_EQ(StateOf(other), Member::State::kActive);
  EXPECT_EQ(SendHeartbeat(other, 1).leases.size(), 1u);
}

TEST_F(CoordinatorTopologyTest, AClassThatNobodyOffersIsNamed) {
  config_.topology.worker_class = "gpu";
  Start({});
  Run();
  EXPECT_THAT(Misplaced(), ElementsAre("workers: no host offers the class 'gpu'; there is none"));
}

TEST_F(CoordinatorTopologyTest, WorkersGetSplitsOfPartitionsNearThem) {
  config_.partition_places = {{kNorthA}, {kNorthB}};
  Start({});
  Stream(1000, 2000);
  a_ = JoinServer("a");
  b_ = JoinServer("b");
  BeatAll({a_, b_});
  const NodeId in_b = JoinAt(Role::kWorker, kNorthB).node, in_a = JoinAt(Role::kWorker, kNorthA).node;
  SendHeartbeat(in_b);
  SendHeartbeat(in_a);
  std::vector<uint64_t> held_a, held_b;
  for (int i = 0; i < 5; ++i) {
    for (const Lease& lease : SendHeartbeat(in_a, 1, held_a).leases) {
      held_a.push_back(lease.id);
      if (i > 0) {
        EXPECT_EQ(lease.cut.partition, 0u);
      }
    }
    for (const Lease& lease : SendHeartbeat(in_b, 1, held_b).leases) {
      held_b.push_back(lease.id);
      EXPECT_EQ(lease.cut.partition, 1u);
    }
  }
  EXPECT_EQ(held_a.size(), 5u);
  EXPECT_EQ(held_b.size(), 5u);
}

}  // namespace
}  // namespace leat::protocol
