#include "run/roles/standby/standby.h"

#include <fcntl.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "base/log.h"
#include "base/path/paths.h"
#include "base/threads/thread.h"
#include "job/resume.h"
#include "net/address.h"
#include "net/frames/messages.h"
#include "net/rpc/client.h"
#include "net/transports.h"
#include "protocol/succession/replication.h"
#include "run/launcher/signals.h"
#include "run/roles/background_thread.h"
#include "run/roles/role.h"
#include "storage/checkpoint/file.h"
#include "storage/checkpoint/journal.h"
#include "storage/checkpoint/manifest.h"
#include "storage/checkpoint/standby/standby_directory.h"
#include "storage/checkpoint/store.h"
#include "storage/transfer/client.h"

namespace leat::roles {
namespace {

constexpr Duration kFollowCall = std::chrono::milliseconds(600);  // several times as long as an answer takes
// While it stands for election, it looks for another coordinator now and then.
constexpr Duration kCandidateCall = std::chrono::milliseconds(150);
constexpr Duration kCandidatePause = std::chrono::milliseconds(300);
constexpr Duration kElectionPoll = std::chrono::milliseconds(20);
constexpr Duration kAliveInterval = std::chrono::milliseconds(400);  // between keep-alives
constexpr Duration kMemberCallLimit = std::chrono::seconds(5);       // its answer may have to be agreed
constexpr Duration kFollowRetry = std::chrono::milliseconds(50);
constexpr Duration kCopyRetry = std::chrono::seconds(2);
constexpr Duration kFirstJoinLimit = std::chrono::seconds(10);
// The coordinator is taken for lost after this time without an answer. A coordinator that only this standby
// cannot reach is not replaced: its members do not call the standby.
constexpr Duration kCoordinatorSilence = std::chrono::milliseconds(1000);
// Each standby waits so much longer than the one before it, so that votes are rarely split.
constexpr Duration kTurnDelay = std::chrono::milliseconds(400);
// The members have ended by then, too.
constexpr Duration kNobodyHeardLimit = std::chrono::seconds(120);

constexpr uint64_t kPiece = 4 << 20;
constexpr uint64_t kMaxManifest = 256 << 20;

Status CopyShard(transfer::Client& client, const std::string& name, const std::string& path, uint64_t bytes) {
  LEAT_ASSIGN_OR_RETURN(const uint64_t size, client.Size(name));
  if (size != bytes) {
    return {Code::kDataLoss,
            name + ": has " + std::to_string(size) + " bytes, the manifest says " + std::to_string(bytes)};
  }
  LEAT_ASSIGN_OR_RETURN(auto file, checkpoint::File::Open(path, O_WRONLY | O_CREAT | O_TRUNC));
  Bytes piece;
  for (uint64_t at = 0; at < size; at += piece.size()) {
    piece.resize(std::min(kPiece, size - at));
    LEAT_RETURN_IF_ERROR(client.Read(name, at, piece));
    LEAT_RETURN_IF_ERROR(file.Write(piece));
  }
  return file.Sync();
}

// Copies the shards of a checkpoint from the coordinator's transfer service into this empty directory, synced
// and verified. The manifest is to be written last.
Result<protocol::Manifest> CopyCheckpoint(transfer::Client& client, uint64_t id,
                                          const std::string& directory) {
  const std::string folder = checkpoint::CheckpointName(id) + "/";
  const std::string name = folder + checkpoint::kManifestName;
  LEAT_ASSIGN_OR_RETURN(const uint64_t size, client.Size(name));
  if (size > kMaxManifest)
    return Status(Code::kResourceExhausted, name + ": has " + std::to_string(size) + " bytes");
  Bytes text(size);
  LEAT_RETURN_IF_ERROR(client.Read(name, 0, text));
  LEAT_ASSIGN_OR_RETURN(protocol::Manifest manifest, checkpoint::ParseManifest(text, name));
  if (manifest.id != id)
    return Status(Code::kDataLoss, name + ": is that of checkpoint " + std::to_string(manifest.id));
  for (const auto& shard : manifest.shards) {
    if (!IsPlainName(shard.file))
      return Status(Code::kDataLoss, name + ": '" + shard.file + "' is not a valid name of a shard");
    LEAT_RETURN_IF_ERROR(CopyShard(client, folder + shard.file, directory + "/" + shard.file, shard.bytes));
  }
  LEAT_RETURN_IF_ERROR(checkpoint::SyncDirectory(directory));
  LEAT_RETURN_IF_ERROR(checkpoint::StandbyDirectory::Verify(directory, manifest));
  return manifest;
}

// A member of the job that copies its coordinator's journal, until the members elect this one.
class JournalCopy {
 public:
  JournalCopy(const StandbyOptions& options, std::unique_ptr<checkpoint::StandbyDirectory> directory,
              Election& election, std::string address)
      : options_(options),
        directory_(std::move(directory)),
        election_(election),
        address_(std::move(address)),
        metrics_(options.coordinator.metrics != nullptr ? options.coordinator.metrics->address() : ""),
        loop_(options.coordinator.metrics != nullptr ? &options.coordinator.metrics->liveness() : nullptr),
        client_(MakeClient()),
        journal_(directory_->coordinator(), directory_->term()),
        member_{.client = MakeClient(), .call = {}} {}
  ~JournalCopy() {
    member_.client->Abort();
    if (copy_.client != nullptr) copy_.client->Abort();
  }

  struct Elected {
    uint64_t term = 0;             // its number
    std::vector<NodeId> electors;  // CoordinatorOptions::electors
  };
  // Until the members have elected this coordinator. kAborted: the job is over, or a signal came.
  Result<Elected> Run() {
    launcher::SignalWatch signals([this](int) {
      stopped_.Set();
      client_->Abort();
    });
    LEAT_RETURN_IF_ERROR(ReadOwnJournal());
    heard_ = begun_ = exchanged_ = clock_.Now();
    while (true) {
      const Status exchanged = Exchange();
      if (!exchanged.ok()) return exchanged;
      const Election::Outcome outcome = election_.Look();
      if (outcome.elected) return Elected{protocol::NumberOf(*outcome.elected), electorate_->agreed()};
      if (outcome.excluded) {
        // The members know a set of coordinators without this one: its journal is incomplete.
        spdlog::warn("the members do not elect this standby: it lacks a part of the journal");
        election_.Withdraw();
        standing_ = false;
        excluded_ = true;
      }
      if (clock_.Now() - heard_ > kNobodyHeardLimit) {
        return Status(Code::kUnavailable,
                      "neither a coordinator nor a majority of the members has been heard "
                      "for " +
                          std::to_string(static_cast<int>(Seconds(kNobodyHeardLimit))) + " s");
      }
    }
  }

 private:
  // Reads the journal that a former standby or coordinator has left in the directory. This standby can be
  // elected if it was in the set.
  Status ReadOwnJournal() {
    if (directory_->term() == 0) return {};
    const auto records = directory_->Records();
    if (records.status().code() == Code::kDataLoss) return {};  // it only becomes useful with a new copy
    LEAT_RETURN_IF_ERROR(records.status());
    electorate_.emplace(ElectorRole());
    for (const auto& record : *records) {
      electorate_->OnRecord(0, record);
      complete_ = complete_ || std::holds_alternative<protocol::JournalAgreed>(record);
    }
    return {};
  }

  protocol::Role ElectorRole() const {
    return protocol::ElectorRole(job::ReadStoredWithoutModel(directory_->directory()).strategy);
  }

  // Makes an exchange with the coordinator.
  Status Exchange() {
    loop_.Turned();
    const Time now = clock_.Now();
    // A pause of this process says nothing about the coordinator.
    if (now - std::exchange(exchanged_, now) > 2 * kFollowCall + kCoordinatorSilence) heard_ = now;
    if (standing_ && now < next_try_) return Pause(kElectionPoll);
    // It cannot follow before it knows the job.
    if (job_.empty()) {
      const auto joined = client_->Call(MakeJoin(), standing_ ? kCandidateCall : kFollowCall);
      if (const Status status = joined.ok() ? OnJoined(*joined) : joined.status(); !status.ok())
        return Missed(status);
    }
    if (!standing_) LEAT_RETURN_IF_ERROR(StayMember());
    auto reply = client_->Call(journal_.MakeRequest(directory_->newest_checkpoint()),
                               standing_ ? kCandidateCall : kFollowCall);
    if (!reply.ok()) return Missed(reply.status());
    auto received = journal_.OnReply(std::get<protocol::FollowReply>(*reply));
    if (!received.ok()) {
      spdlog::warn("{}", received.status().message());
      return Pause(kFollowRetry);
    }
    heard_ = clock_.Now();
    if (standing_) election_.Withdraw();
    standing_ = false;
    if (const Status kept = Keep(*received); !kept.ok()) {
      if (kept.code() == Code::kStale || kept.code() == Code::kInvalidArgument) return kept;
      spdlog::error("the journal cannot be written: {}", kept.message());
      journal_.Restart();
      return Pause(kCopyRetry);
    }
    journal_.OnSynced();
    return CopyCheckpoints(std::get<protocol::FollowReply>(*reply));
  }

  Status Stopped() const { return {Code::kAborted, over_ ? "the job is over" : "stopped"}; }

  std::unique_ptr<control::ControlClient> MakeClient() const {
    return control::ControlClient::Make(options_.leader, options_.coordinator.token,
                                        options_.coordinator.tls);
  }
  protocol::JoinRequest MakeJoin() const {
    return MakeJoinRequest(protocol::Role::kCoordinator, address_, options_.coordinator.place, process_,
                           client_->address());
  }
  Status OnJoined(const protocol::ControlReply& reply) {
    const auto& joined = std::get<protocol::JoinReply>(reply);
    LEAT_RETURN_IF_ERROR(joined.status);
    LEAT_ASSIGN_OR_RETURN(const auto known, directory_->Job());
    const std::string directory = directory_->directory();
    if (known && !job::SameJob(*known, joined.job)) {
      return {Code::kFailedPrecondition,
              directory + ": holds another job than the coordinator at " + client_->address() + " runs"};
    }
    if (directory_->term() != 0 && !protocol::SameRun(directory_->term(), joined.term)) {
      return {Code::kFailedPrecondition, directory +
                                             ": belongs to another run of the job than the coordinator "
                                             "at " +
                                             client_->address() + "; name another directory"};
    }
    LEAT_RETURN_IF_ERROR(CheckStream(joined.job));
    job_ = joined.job;
    node_ = joined.node;
    index_ = joined.index;
    next_alive_ = Time(0);  // the answer has the addresses of the others
    spdlog::info("standby {} joined as node {}, with the directory {}", index_, node_->value, directory);
    return {};
  }

  // It could not read the stream later.
  static Status CheckStream(const std::string& text) {
    const job::Job job = job::Job::WithoutModel(text, "job");
    const std::string log = job.stream->directory();
    if (job.directory.empty() || !log.starts_with(job.directory + "/")) return {};
    return {Code::kFailedPrecondition,
            "the job's stream is in the coordinator's directory, at " + log +
                ": a standby with a directory of its own needs a job that sets 'log:' of the stream"};
  }

  void SayReady() const {
    if (electable_ && known_) spdlog::info("can take the job over from now on");
  }

  // There was no answer.
  Status Missed(const Status& why) {
    if (why.code() == Code::kAborted) return over_ || stopped_.is_set() ? Stopped() : why;
    const Time now = clock_.Now();
    if (!NoAnswer(why) && why.code() != Code::kStale) {
      // A coordinator may have too many standbys for a while, or refuse this one.
      if (job_.empty() || why.code() == Code::kFailedPrecondition) return why;
      journal_.Restart();
    }
    if (over_) return Stopped();
    if (!complete_ && job_.empty() && now - begun_ >= kFirstJoinLimit)
      return why.With("cannot join the coordinator at " + options_.leader);
    next_try_ = now + kCandidatePause;
    if (complete_ && electorate_ && !excluded_ && !standing_ &&
        now - heard_ >= kCoordinatorSilence + index_ * kTurnDelay) {
      spdlog::warn("the coordinator does not answer: {}", why.message());
      standing_ = true;
      election_.Stand({.coordinator = directory_->coordinator(),
                       .founder = directory_->founder(),
                       .term = directory_->term()},
                      *electorate_);
    }
    return Pause(kFollowRetry);
  }

  void AddAddresses(const std::vector<std::string>& addresses) {
    client_->AddAddresses(addresses);
    member_.client->AddAddresses(addresses);
  }

  // Joins again where it is no member, and says that it is alive.
  Status StayMember() {
    if (const auto reply = member_.call.Take(); reply && reply->ok()) {
      const auto* answer = std::get_if<protocol::KeepAliveReply>(&**reply);
      if (answer == nullptr) return OnJoined(**reply);
      AddAddresses(answer->standbys);
      if (answer->evicted) {
        node_.reset();
        next_alive_ = Time(0);
      }
      if (std::exchange(known_, answer->known) != known_) SayReady();
      // It has the rest of the journal written until the coordinator has ended: the others wait for that.
      over_ = over_ || answer->stop;
    }
    if (member_.call.busy() || clock_.Now() < next_alive_) return {};
    next_alive_ = clock_.Now() + kAliveInterval;
    protocol::ControlRequest request = MakeJoin();
    if (node_) request = protocol::KeepAlive{.node = *node_, .metrics = metrics_};
    member_.call.Start([this, request] { return member_.client->Call(request, kMemberCallLimit); });
    return {};
  }

  Status Keep(const protocol::FollowedJournal::Received& received) {
    std::vector<protocol::JournalRecord> records;
    for (const Bytes& bytes : received.records) {
      LEAT_ASSIGN_OR_RETURN(auto record, checkpoint::DecodePayload(bytes));
      records.push_back(std::move(record));
    }
    if (received.anew) {
      LEAT_RETURN_IF_ERROR(directory_->Begin(received.term, job_, records));
      electorate_.emplace(ElectorRole());
      complete_ = electable_ = known_ = excluded_ = false;
      next_alive_ = Time(0);  // it may have to join again
      spdlog::info("has the journal of term {}: {} records", protocol::NumberOf(received.term),
                   records.size());
    } else {
      LEAT_RETURN_IF_ERROR(directory_->Append(records));
    }
    for (size_t i = 0; i < records.size(); ++i) {
      electorate_->OnRecord(received.ends[i], records[i]);
      // Another standby may be elected next.
      const auto* joined = std::get_if<protocol::MemberJoined>(&records[i]);
      if (joined != nullptr && joined->member.role == protocol::Role::kCoordinator)
        AddAddresses({joined->member.address});
    }
    return {};
  }

  Status CopyCheckpoints(const protocol::FollowReply& reply) {
    if (!electorate_) return {};
    if (journal_.began()) electorate_->OnAgreed(reply.agreed);
    if (std::exchange(electable_, reply.electable) != electable_) SayReady();
    complete_ = complete_ || reply.in_set;
    if (const auto copied = copy_.call.Take()) {
      Status status = copied->status();
      if (status.ok()) status = directory_->Complete(**copied);
      if (status.ok()) {
        spdlog::info("has a copy of checkpoint {}", copy_.id);
      } else {
        spdlog::warn("checkpoint {} cannot be copied: {}", copy_.id, status.message());
        next_copy_ = clock_.Now() + kCopyRetry;
      }
    }
    // A journal that names two electorates is kept.
    if (!copy_.call.busy() && electorate_->Settled() && reply.oldest_kept > dropped_ &&
        directory_->newest_checkpoint() >= reply.oldest_kept) {
      if (const Status dropped = directory_->Drop(reply.oldest_kept, reply.watermark); !dropped.ok()) {
        spdlog::warn("{}", dropped.ToString());
        if (dropped.code() == Code::kDataLoss) return dropped;
      }
      dropped_ = reply.oldest_kept;
    }
    if (copy_.call.busy() || reply.checkpoint <= directory_->newest_checkpoint() || clock_.Now() < next_copy_)
      return {};
    const auto directory = directory_->Prepare(reply.checkpoint);
    if (!directory.ok()) {
      spdlog::warn("checkpoint {} cannot be copied: {}", reply.checkpoint, directory.status().message());
      next_copy_ = clock_.Now() + kCopyRetry;
      return {};
    }
    copy_.client = std::make_shared<transfer::Client>(
        AddressOf(reply.transfers, client_->address()), [this](net::Loop& loop) {
          const CoordinatorOptions& own = options_.coordinator;
          return net::MakeTcpTransport(loop,
                                       {.token = own.token, .port = wire::TransferPort(), .tls = own.tls});
        });
    copy_.id = reply.checkpoint;
    copy_.call.Start(
        [client = copy_.client, id = copy_.id, to = *directory] { return CopyCheckpoint(*client, id, to); });
    return {};
  }

  Status Pause(Duration duration) { return stopped_.Await(duration) ? Stopped() : Status(); }

  const StandbyOptions& options_;
  const std::unique_ptr<checkpoint::StandbyDirectory> directory_;
  Election& election_;
  const std::string address_;
  const std::string metrics_;  // as in protocol::KeepAlive
  observe::WatchedLoop loop_;
  const std::unique_ptr<control::ControlClient> client_;
  const MonotonicClock clock_;
  const uint64_t process_ = NewProcess();
  protocol::FollowedJournal journal_;
  std::optional<protocol::Electorate> electorate_;  // by the directory's journal; none: it has none
  bool complete_ = false;  // the directory has had every agreed record; the members know whether it still has
  bool excluded_ = false;  // it has not
  bool electable_ = false;  // a majority of the members may elect it
  bool known_ = false;      // all members have its address
  std::string job_;
  std::optional<NodeId> node_;  // none: it is no member
  uint32_t index_ = 0;
  Time begun_{0}, heard_{0}, exchanged_{0}, next_try_{0}, next_alive_{0}, next_copy_{0};
  bool standing_ = false;
  bool over_ = false;  // the job
  uint64_t dropped_ = 0;
  StopEvent stopped_;  // a signal came
  // Calls as a member. The coordinator may answer them only once this standby has more of the journal, so
  // that they are made on a thread of their own while it follows.
  struct MemberCalls {
    std::unique_ptr<control::ControlClient> client;
    BackgroundCall<Result<protocol::ControlReply>> call;
  } member_;
  struct CheckpointCopy {
    std::shared_ptr<transfer::Client> client;  // null: nothing was copied yet
    uint64_t id = 0;                           // the checkpoint
    BackgroundCall<Result<protocol::Manifest>> call;
  } copy_;
};

}  // namespace

Status AwaitElection(StandbyOptions* options) {
  CoordinatorOptions& coordinator = options->coordinator;
  LEAT_ASSIGN_OR_RETURN(auto directory, checkpoint::StandbyDirectory::Open(options->directory));
  LEAT_ASSIGN_OR_RETURN(const auto election, Election::Start(coordinator));
  coordinator.listen = election->address();
  LEAT_ASSIGN_OR_RETURN(const std::string address,
                        net::AdvertisedAddress(coordinator.advertise, coordinator.listen));
  JournalCopy copy(*options, std::move(directory), *election, address);
  LEAT_ASSIGN_OR_RETURN(JournalCopy::Elected elected, copy.Run());
  spdlog::warn("the members have elected this standby for term {}; it takes the job over", elected.term);
  coordinator.term = elected.term;
  coordinator.electors = std::move(elected.electors);
  return {};
}

}  // namespace leat::roles
