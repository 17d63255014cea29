#include "checkpoint/journal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "protocol/guards.h"
#include "protocol/messages_data.h"

namespace leat::checkpoint {
namespace {

using protocol::CheckpointBegun;
using protocol::CutsMade;
using protocol::GroupNamed;
using protocol::IdsReserved;
using protocol::JournalAgreed;
using protocol::JournalRecord;
using protocol::LabelMark;
using protocol::LabelsMarked;
using protocol::LanesSet;
using protocol::MemberJoined;
using protocol::MembersLeft;
using protocol::PassesPlanned;
using protocol::Position;
using protocol::PublishersGrouped;
using protocol::RateRaised;
using protocol::RoundMade;
using protocol::ScaleSet;
using protocol::SlicesPlaced;
using protocol::StreamStart;

constexpr std::string_view kMagic("leat-journal-2\n\0", 16);
// Its first bytes cannot complete the end mark of a record that they cut off.
constexpr std::string_view kSealMagic("end-leat-journal");
constexpr std::string_view kEndMark = "leat";
constexpr uint64_t kHeadBytes = 8;
constexpr uint64_t kTailBytes = 12;
constexpr uint64_t kSector = 512;
constexpr uint64_t kMaxRecord = 16 << 20;
constexpr uint64_t kMaxFile = uint64_t{1} << 32;

constexpr uint64_t kSealBytes = 32;
constexpr uint32_t kMaxText = 4096;

enum class Kind : uint8_t {
  kCuts = 1,
  kStart = 2,
  kNodes = 3,
  kRound = 4,
  kRate = 5,
  kLabels = 6,
  kJoined = 7,
  kLeft = 8,
  kPlaced = 9,
  kGroup = 10,
  kCheckpoint = 11,
  kLanes = 12,
  kScale = 13,
  kAgreed = 14,
  kPasses = 15,
  kPublishers = 16
};

uint32_t LengthCheck(uint32_t length, uint64_t offset) {
  return static_cast<uint32_t>(Checksum(std::as_bytes(std::span(&length, 1)), offset));
}

// True if the bytes [at, end) were incompletely written in a crash: from a sector boundary inside them to the
// end of the file, everything is zero.
bool Unwritten(ByteView file, uint64_t at, uint64_t end) {
  uint64_t zeros = file.size();
  while (zeros > at && file[zeros - 1] == std::byte{0}) --zeros;
  if (zeros == at) return true;
  return (zeros + kSector - 1) / kSector * kSector < end;
}

void AppendRecord(const JournalRecord& record, Bytes* file) {
  const Bytes bytes = EncodeRecord(record, file->size());
  file->insert(file->end(), bytes.begin(), bytes.end());
}

constexpr uint64_t kPositionBytes = 12;
constexpr uint64_t kMarkBytes = 24;
constexpr uint64_t kPlaceBytes = 44;

void Put(Position position, ByteWriter* out) {
  out->Put(position.epoch);
  out->Put(position.offset);
}

Position GetPosition(ByteReader* in) {
  const auto epoch = in->Get<uint32_t>();
  return {epoch, in->Get<uint64_t>()};
}

// The fixed size of an encoded cut.
uint64_t CutBytes() {
  static const uint64_t bytes = [] {
    ByteWriter out;
    Encode(protocol::Cut{}, &out);
    return out.size();
  }();
  return bytes;
}

RoundMade DecodeRound(ByteReader* in) {
  RoundMade round;
  round.first_step = in->Get<uint64_t>();
  round.needed = in->Get<uint32_t>();
  const uint32_t lanes = in->GetCount(CutBytes() + sizeof(uint64_t));
  if (lanes == 0 || lanes > protocol::StepLane::kMaxWidth || round.needed == 0 || round.needed > lanes)
    in->Fail();
  for (uint32_t i = 0; i < lanes && in->ok(); ++i) {
    const protocol::Cut cut = protocol::DecodeCut(in);
    if (!in->ok()) break;
    std::vector<uint64_t> words((cut.runs() + 63) / 64);  // at most kMaxBatches / 64
    for (uint64_t& word : words) word = in->Get<uint64_t>();
    const protocol::RunSet assigned(cut.runs(), words);
    // No runs past the end of the cut, and all lanes have as many as the first.
    const bool fits = std::ranges::equal(assigned.words(), words) && !assigned.empty() &&
                      (i == 0 || assigned.count() == round.lanes[0].assigned.count());
    if (!fits) in->Fail();
    round.lanes.push_back({cut, assigned});
  }
  return round;
}

RateRaised DecodeRate(ByteReader* in) {
  RateRaised raised;
  raised.factor = in->Get<float>();
  if (!protocol::ValidRate(raised.factor)) in->Fail();
  const uint32_t partitions = in->GetCount(2 * kPositionBytes);
  for (uint32_t p = 0; p < partitions && in->ok(); ++p) {
    raised.first.push_back(GetPosition(in));
    raised.last.push_back(GetPosition(in));
  }
  return raised;
}

LabelsMarked DecodeLabels(ByteReader* in) {
  LabelsMarked marked;
  marked.partition = in->Get<uint32_t>();
  const uint32_t count = in->GetCount(kMarkBytes);
  marked.marks.reserve(count);
  for (uint32_t i = 0; i < count && in->ok(); ++i) {
    LabelMark mark;
    mark.events = in->Get<uint64_t>();
    mark.labels_begin = in->Get<uint64_t>();
    mark.labels_end = in->Get<uint64_t>();
    const bool fits =
        i == 0 ? mark.events > 0 && mark.labels_begin <= mark.labels_end : mark.Follows(marked.marks.back());
    if (!fits) in->Fail();
    marked.marks.push_back(mark);
  }
  return marked;
}

LanesSet DecodeLanes(ByteReader* in) {
  LanesSet set;
  set.first_step = in->Get<uint64_t>();
  set.lanes = in->Get<uint32_t>();
  if (set.lanes == 0 || set.lanes > protocol::StrategyConfig::kMaxLanes) in->Fail();
  return set;
}

void Put(const PassesPlanned& planned, ByteWriter* out) {
  out->Put(static_cast<uint32_t>(planned.partitions.size()));
  for (const protocol::Passes& passes : planned.partitions) {
    out->Put(static_cast<uint32_t>(passes.size()));
    for (const protocol::PassSpan& span : passes) {
      out->Put(span.epochs);
      out->Put(span.begin);
      out->Put(span.end);
    }
  }
}

PassesPlanned DecodePasses(ByteReader* in) {
  PassesPlanned planned;
  const uint32_t partitions = in->GetCount(sizeof(uint32_t));
  for (uint32_t p = 0; p < partitions && in->ok(); ++p) {
    protocol::Passes passes(in->GetCount(sizeof(uint32_t) + 2 * sizeof(uint64_t)));
    for (protocol::PassSpan& span : passes) {
      span.epochs = in->Get<uint32_t>();
      span.begin = in->Get<uint64_t>();
      span.end = in->Get<uint64_t>();
      if (span.epochs == 0 || span.begin > span.end) in->Fail();
    }
    if (passes.empty()) in->Fail();
    planned.partitions.push_back(std::move(passes));
  }
  return planned;
}

ScaleSet DecodeScale(ByteReader* in) {
  ScaleSet scale;
  scale.workers.least = in->Get<uint32_t>();
  scale.workers.most = in->Get<uint32_t>();
  scale.servers = in->Get<uint32_t>();
  const auto paused = in->Get<uint8_t>();
  scale.begun = in->Get<uint64_t>();
  if (!scale.workers.valid() || paused > 1) in->Fail();
  scale.paused = paused == 1;
  return scale;
}

void Put(const std::vector<NodeId>& nodes, ByteWriter* out) {
  out->Put(static_cast<uint32_t>(nodes.size()));
  for (const NodeId node : nodes) out->Put(node.value);
}

std::vector<NodeId> GetNodes(ByteReader* in) {
  std::vector<NodeId> nodes(in->GetCount(sizeof(uint64_t)));
  for (NodeId& node : nodes) node = NodeId(in->Get<uint64_t>());
  return nodes;
}

void Put(const MemberJoined& joined, ByteWriter* out) {
  out->Put(joined.member.node.value);
  out->Put(joined.member.role);
  out->Put(joined.member.index);
  out->Put(joined.member.state);
  out->PutString(joined.member.address);
  out->PutString(joined.host);
  out->Put(joined.pid);
  out->Put(joined.process);
  out->Put(joined.network);
  if (joined.place == topology::HostPlace()) return;
  out->PutString(joined.place.site);
  out->PutString(joined.place.zone);
  out->PutString(joined.place.host_class);
}

MemberJoined DecodeMember(ByteReader* in) {
  MemberJoined joined;
  joined.member.node = NodeId(in->Get<uint64_t>());
  joined.member.role = in->Get<protocol::Role>();
  if (joined.member.role > protocol::Role::kServe) in->Fail();
  joined.member.index = in->Get<uint32_t>();
  joined.member.state = in->Get<protocol::Member::State>();
  if (joined.member.state > protocol::Member::State::kStandby) in->Fail();
  joined.member.address = in->GetString(kMaxText);
  joined.host = in->GetString(kMaxText);
  joined.pid = in->Get<int64_t>();
  joined.process = in->Get<uint64_t>();
  joined.network = in->Get<uint64_t>();
  if (in->remaining() == 0) return joined;  // its place is not known
  joined.place.site = in->GetString(topology::HostPlace::kMaxBytes);
  joined.place.zone = in->GetString(topology::HostPlace::kMaxBytes);
  joined.place.host_class = in->GetString(topology::HostPlace::kMaxBytes);
  if (joined.place == topology::HostPlace() || !topology::Check(joined.place).ok()) in->Fail();
  return joined;
}

void Put(const SlicesPlaced& placed, ByteWriter* out) {
  out->Put(static_cast<uint32_t>(placed.places.size()));
  for (const SlicesPlaced::Place& place : placed.places) {
    out->Put(place.slice.value);
    out->Put(place.server.value);
    out->Put(place.incarnation.value);
    out->Put(place.move);
    out->Put(place.replica.value);
    out->Put(place.epoch);
  }
}

SlicesPlaced DecodePlaces(ByteReader* in) {
  SlicesPlaced placed;
  placed.places.resize(in->GetCount(kPlaceBytes));
  for (SlicesPlaced::Place& place : placed.places) {
    place.slice = SliceId(in->Get<uint32_t>());
    place.server = NodeId(in->Get<uint64_t>());
    place.incarnation = Incarnation(in->Get<uint64_t>());
    place.move = in->Get<uint64_t>();
    place.replica = NodeId(in->Get<uint64_t>());
    place.epoch = in->Get<uint64_t>();
  }
  return placed;
}

Bytes EncodeSeal(uint64_t term) {
  ByteWriter out;
  out.PutRaw(AsBytes(kSealMagic));
  out.Put(term);
  out.Put(Checksum(out.view()));
  return out.Take();
}

// Where the first seal begins, from `at` on.
std::optional<uint64_t> FindSeal(ByteView file, uint64_t at) {
  const ByteView magic = AsBytes(kSealMagic);
  for (auto from = file.begin() + static_cast<ptrdiff_t>(at);; ++from) {
    from = std::search(from, file.end(), magic.begin(), magic.end());
    if (file.end() - from < static_cast<ptrdiff_t>(kSealBytes)) return std::nullopt;
    const auto seal = file.subspan(static_cast<size_t>(from - file.begin()), kSealBytes);
    ByteReader in(seal.last(sizeof(uint64_t)));
    if (in.Get<uint64_t>() == Checksum(seal.first(kSealBytes - sizeof(uint64_t))))
      return static_cast<uint64_t>(from - file.begin());
  }
}

bool Before(const protocol::Cut& cut, const std::vector<protocol::Position>& watermark) {
  return cut.partition < watermark.size() && cut.next() <= watermark[cut.partition];
}

}  // namespace

Bytes JournalHeader() {
  const ByteView magic = AsBytes(kMagic);
  return Bytes(magic.begin(), magic.end());
}

Bytes EncodePayload(const JournalRecord& record) {
  ByteWriter out;
  if (const auto* cuts = std::get_if<CutsMade>(&record)) {
    out.Put(Kind::kCuts);
    out.Put(static_cast<uint32_t>(cuts->cuts.size()));
    for (const auto& cut : cuts->cuts) Encode(cut, &out);
  } else if (const auto* start = std::get_if<StreamStart>(&record)) {
    out.Put(Kind::kStart);
    out.Put(static_cast<uint32_t>(start->start.size()));
    for (const Position position : start->start) Put(position, &out);
  } else if (const auto* round = std::get_if<RoundMade>(&record)) {
    out.Put(Kind::kRound);
    out.Put(round->first_step);
    out.Put(round->needed);
    out.Put(static_cast<uint32_t>(round->lanes.size()));
    for (const auto& part : round->lanes) {
      Encode(part.cut, &out);
      for (const uint64_t word : part.assigned.words()) out.Put(word);
    }
  } else if (const auto* raised = std::get_if<RateRaised>(&record)) {
    out.Put(Kind::kRate);
    out.Put(raised->factor);
    out.Put(static_cast<uint32_t>(raised->first.size()));
    for (size_t p = 0; p < raised->first.size(); ++p) {
      Put(raised->first[p], &out);
      Put(raised->last[p], &out);
    }
  } else if (const auto* marked = std::get_if<LabelsMarked>(&record)) {
    out.Put(Kind::kLabels);
    out.Put(marked->partition);
    out.Put(static_cast<uint32_t>(marked->marks.size()));
    for (const LabelMark& mark : marked->marks) {
      out.Put(mark.events);
      out.Put(mark.labels_begin);
      out.Put(mark.labels_end);
    }
  } else if (const auto* set = std::get_if<LanesSet>(&record)) {
    out.Put(Kind::kLanes);
    out.Put(set->first_step);
    out.Put(set->lanes);
  } else if (const auto* scale = std::get_if<ScaleSet>(&record)) {
    out.Put(Kind::kScale);
    out.Put(scale->workers.least);
    out.Put(scale->workers.most);
    out.Put(scale->servers);
    out.Put(static_cast<uint8_t>(scale->paused ? 1 : 0));
    out.Put(scale->begun);
  } else if (const auto* nodes = std::get_if<IdsReserved>(&record)) {
    out.Put(Kind::kNodes);
    out.Put(nodes->node);
    out.Put(nodes->lease);
  } else if (const auto* joined = std::get_if<MemberJoined>(&record)) {
    out.Put(Kind::kJoined);
    Put(*joined, &out);
  } else if (const auto* left = std::get_if<MembersLeft>(&record)) {
    out.Put(Kind::kLeft);
    Put(left->nodes, &out);
  } else if (const auto* placed = std::get_if<SlicesPlaced>(&record)) {
    out.Put(Kind::kPlaced);
    Put(*placed, &out);
  } else if (const auto* group = std::get_if<GroupNamed>(&record)) {
    out.Put(Kind::kGroup);
    out.Put(group->id);
    Put(group->members, &out);
  } else if (const auto* begun = std::get_if<CheckpointBegun>(&record)) {
    out.Put(Kind::kCheckpoint);
    out.Put(begun->id);
  } else if (const auto* planned = std::get_if<PassesPlanned>(&record)) {
    out.Put(Kind::kPasses);
    Put(*planned, &out);
  } else if (const auto* grouped = std::get_if<PublishersGrouped>(&record)) {
    out.Put(Kind::kPublishers);
    out.Put(grouped->groups);
  } else {
    static_assert(std::variant_size_v<JournalRecord> == 16);
    out.Put(Kind::kAgreed);
    Put(std::get<JournalAgreed>(record).electors, &out);
  }
  return out.Take();
}

Result<JournalRecord> DecodePayload(ByteView payload) {
  ByteReader in(payload);
  const auto kind = in.Get<Kind>();
  JournalRecord record;
  switch (kind) {
    case Kind::kCuts: {
      CutsMade made;
      const uint32_t count = in.GetCount(CutBytes());
      made.cuts.reserve(count);
      for (uint32_t i = 0; i < count && in.ok(); ++i) made.cuts.push_back(protocol::DecodeCut(&in));
      record = std::move(made);
      break;
    }
    case Kind::kStart: {
      StreamStart start;
      start.start.resize(in.GetCount(kPositionBytes));
      for (auto& position : start.start) position = GetPosition(&in);
      record = std::move(start);
      break;
    }
    case Kind::kNodes: {
      IdsReserved nodes;
      nodes.node = in.Get<uint64_t>();
      nodes.lease = in.Get<uint64_t>();
      record = nodes;
      break;
    }
    case Kind::kRound:
      record = DecodeRound(&in);
      break;
    case Kind::kRate:
      record = DecodeRate(&in);
      break;
    case Kind::kLabels:
      record = DecodeLabels(&in);
      break;
    case Kind::kJoined:
      record = DecodeMember(&in);
      break;
    case Kind::kLeft:
      record = MembersLeft{GetNodes(&in)};
      break;
    case Kind::kPlaced:
      record = DecodePlaces(&in);
      break;
    case Kind::kGroup: {
      const auto id = in.Get<uint64_t>();
      record = GroupNamed{id, GetNodes(&in)};
      break;
    }
    case Kind::kCheckpoint:
      record = CheckpointBegun{in.Get<uint64_t>()};
      break;
    case Kind::kLanes:
      record = DecodeLanes(&in);
      break;
    case Kind::kScale:
      record = DecodeScale(&in);
      break;
    case Kind::kPasses:
      record = DecodePasses(&in);
      break;
    case Kind::kPublishers: {
      const PublishersGrouped grouped{in.Get<uint32_t>()};
      if (grouped.groups == 0) in.Fail();
      record = grouped;
      break;
    }
    case Kind::kAgreed:
      record = JournalAgreed{GetNodes(&in)};
      break;
    default:
      return Status(Code::kDataLoss, "a record of kind " + std::to_string(static_cast<int>(kind)));
  }
  if (!in.Done()) return Status(Code::kDataLoss, "its content does not match its kind");
  return record;
}

Bytes EncodeRecord(const JournalRecord& record, uint64_t offset) {
  const Bytes payload = EncodePayload(record);
  const auto length = static_cast<uint32_t>(payload.size());
  ByteWriter out;
  out.Put(length);
  out.Put(LengthCheck(length, offset));
  out.PutRaw(payload);
  out.Put(Checksum(payload, offset));
  out.PutRaw(AsBytes(kEndMark));
  return out.Take();
}

namespace {

// Appends the record at `at`. Returns its end, or none if it is torn.
Result<std::optional<uint64_t>> ParseRecord(ByteView file, uint64_t at, const std::string& path,
                                            std::vector<JournalRecord>* records) {
  const auto damaged = [&](const std::string& why) {
    return Status(Code::kDataLoss, path + ": record at byte " + std::to_string(at) + ": " + why);
  };
  const std::optional<uint64_t> torn;
  if (file.size() - at < kHeadBytes) return torn;
  ByteReader in(file.subspan(at));
  const auto length = in.Get<uint32_t>();
  if (in.Get<uint32_t>() != LengthCheck(length, at)) {
    if (Unwritten(file, at, at + kHeadBytes)) return torn;
    return damaged("its length " + std::to_string(length) + " is not what was written");
  }
  if (in.remaining() < length + kTailBytes) return torn;
  const uint64_t end = at + kHeadBytes + length + kTailBytes;
  const ByteView payload = in.GetRaw(length);
  const auto checksum = in.Get<uint64_t>();
  if (checksum != Checksum(payload, at) || AsText(in.GetRaw(kEndMark.size())) != kEndMark) {
    if (end == file.size() && Unwritten(file, at, end)) return torn;
    return damaged("its " + std::to_string(length) + " bytes are not what was written");
  }
  auto record = DecodePayload(payload);
  if (!record.ok()) return damaged(record.status().message());
  records->push_back(std::move(*record));
  return std::optional(end);
}

}  // namespace

Result<JournalContents> ParseJournal(ByteView file, const std::string& path) {
  if (file.size() < kMagic.size() || AsText(file.first(kMagic.size())) != kMagic) {
    return Status(Code::kDataLoss, path + ": is not a journal (wrong first bytes)");
  }
  JournalContents contents;
  contents.end = kMagic.size();
  while (contents.end < file.size()) {
    const auto end = ParseRecord(file, contents.end, path, &contents.records);
    if (end.ok() && *end) {
      contents.end = **end;
      continue;
    }
    // Its writer may have been in the middle of a record when the journal was sealed.
    const auto seal = contents.sealed ? std::nullopt : FindSeal(file, contents.end);
    if (!seal) {
      LEAT_RETURN_IF_ERROR(end.status());
      break;
    }
    contents.sealed = true;
    file = file.first(*seal);
  }
  return contents;
}

std::vector<JournalRecord> Compact(std::vector<JournalRecord> records,
                                   const std::vector<protocol::Position>& watermark) {
  protocol::DropMarksBefore(watermark, &records);
  protocol::DropReplaced(&records);
  std::optional<JournalRecord> start;
  std::optional<JournalRecord> nodes;
  std::optional<JournalRecord> scale;
  std::vector<JournalRecord> rest;
  for (auto& record : records) {
    if (auto* made = std::get_if<CutsMade>(&record)) {
      std::erase_if(made->cuts, [&](const protocol::Cut& cut) { return Before(cut, watermark); });
      if (!made->cuts.empty()) rest.push_back(std::move(record));
    } else if (const auto* round = std::get_if<RoundMade>(&record)) {
      // A round is kept as a whole, because its steps need all its lanes.
      const bool over = std::ranges::all_of(
          round->lanes, [&](const RoundMade::Lane& part) { return Before(part.cut, watermark); });
      if (!over) rest.push_back(std::move(record));
    } else if (const auto* raised = std::get_if<RateRaised>(&record)) {
      if (!raised->Before(watermark)) rest.push_back(std::move(record));
    } else if (std::holds_alternative<StreamStart>(record)) {
      start = std::move(record);
    } else if (std::holds_alternative<IdsReserved>(record)) {
      nodes = std::move(record);
    } else if (std::holds_alternative<ScaleSet>(record)) {
      scale = std::move(record);
    } else {
      rest.push_back(std::move(record));
    }
  }
  protocol::DropUnusedLanes(&rest);
  std::vector<JournalRecord> kept;
  if (start) kept.push_back(std::move(*start));
  if (nodes) kept.push_back(std::move(*nodes));
  if (scale) kept.push_back(std::move(*scale));
  std::move(rest.begin(), rest.end(), std::back_inserter(kept));
  return kept;
}

Result<JournalContents> ReadJournal(const std::string& directory) {
  const std::string path = directory + "/" + kJournalName;
  const auto bytes = ReadFile(path, kMaxFile);
  if (bytes.status().code() == Code::kNotFound) return Status(Code::kDataLoss, path + ": is missing");
  LEAT_RETURN_IF_ERROR(bytes.status());
  return ParseJournal(*bytes, path);
}

Result<std::vector<JournalRecord>> SealJournal(const std::string& directory, uint64_t term) {
  {
    LEAT_ASSIGN_OR_RETURN(File file, File::Open(directory + "/" + kJournalName, O_RDWR | O_APPEND));
    LEAT_RETURN_IF_ERROR(file.Write(EncodeSeal(term)));
    LEAT_RETURN_IF_ERROR(file.Sync());
  }
  LEAT_ASSIGN_OR_RETURN(JournalContents contents, ReadJournal(directory));
  return std::move(contents.records);
}

Result<Journal> Journal::Create(const std::string& directory, const std::vector<JournalRecord>& records) {
  Bytes bytes = JournalHeader();
  for (const auto& record : records) AppendRecord(record, &bytes);
  LEAT_RETURN_IF_ERROR(ReplaceFile(directory, kJournalName, bytes));
  LEAT_ASSIGN_OR_RETURN(File file, File::Open(directory + "/" + kJournalName, O_RDWR | O_APPEND));
  return Journal(directory, std::move(file), bytes.size());
}

Status Journal::Append(std::span<const JournalRecord> records) {
  Bytes bytes;
  for (const auto& record : records) {
    const Bytes encoded = EncodeRecord(record, end_ + bytes.size());
    if (encoded.size() > kMaxRecord || end_ + bytes.size() + encoded.size() > kMaxFile) {
      return Status(Code::kResourceExhausted, file_.path() + ": a record of " +
                                                  std::to_string(encoded.size()) + " bytes behind " +
                                                  std::to_string(end_ + bytes.size()));
    }
    bytes.insert(bytes.end(), encoded.begin(), encoded.end());
  }
  if (!trusted_) {
    // The records before `end_` were synced before the failure; Read checks them.
    LEAT_RETURN_IF_ERROR(Read().status());
    Bytes all(end_);
    LEAT_RETURN_IF_ERROR(file_.ReadAt(0, all));
    all.insert(all.end(), bytes.begin(), bytes.end());
    return Replace(all, end_);
  }
  // Appended to the end of the file, wherever that is.
  if (const Status status = file_.WriteAt(end_, bytes); !status.ok()) {
    // Cuts off what was written in part, so that the next record does not follow invalid bytes. If the
    // journal was sealed meanwhile, the seal may be cut off, too; then the file has another name.
    trusted_ = file_.Truncate(end_).ok();
    LEAT_RETURN_IF_ERROR(ReadBack({}));
    return status;
  }
  if (const Status status = bytes.empty() ? Status() : file_.Sync(); !status.ok()) {
    // The system may have dropped the pages, and a second sync would not reveal it.
    trusted_ = false;
    return status;
  }
  LEAT_RETURN_IF_ERROR(ReadBack(bytes));
  end_ += bytes.size();
  return {};
}

Status Journal::ReadBack(ByteView written) const {
  struct stat mine, named;
  if (fstat(file_.fd(), &mine) != 0) return SystemError(file_.path(), "stat", errno);
  // A new coordinator renames the directory first, and then reads what is in the file.
  const bool found = stat(file_.path().c_str(), &named) == 0;
  if (!found && errno != ENOENT && errno != ENOTDIR) return SystemError(file_.path(), "stat", errno);
  bool sealed = !found || mine.st_dev != named.st_dev || mine.st_ino != named.st_ino;
  const auto size = static_cast<uint64_t>(mine.st_size);
  if (!sealed && size > end_) {
    Bytes there(size - end_);
    LEAT_RETURN_IF_ERROR(file_.ReadAt(end_, there));
    sealed = written.empty() ? FindSeal(there, 0).has_value()
                             : there.size() < written.size() ||
                                   !std::equal(written.begin(), written.end(), there.begin());
  }
  if (protocol::guards::Unsealed(sealed)) return {};
  return {Code::kStale, file_.path() + ": another coordinator has taken over"};
}

Result<std::vector<JournalRecord>> Journal::Read() const {
  Bytes bytes(end_);
  LEAT_RETURN_IF_ERROR(file_.ReadAt(0, bytes));
  LEAT_ASSIGN_OR_RETURN(JournalContents contents, ParseJournal(bytes, file_.path()));
  if (contents.end != end_) {
    return Status(Code::kDataLoss, file_.path() + ": record at byte " + std::to_string(contents.end) +
                                       " is damaged, but was complete before");
  }
  return std::move(contents.records);
}

Status Journal::Rewrite(const std::vector<JournalRecord>& records) {
  Bytes bytes = JournalHeader();
  for (const auto& record : records) AppendRecord(record, &bytes);
  return Replace(bytes, bytes.size());
}

Status Journal::Replace(ByteView bytes, uint64_t counted) {
  LEAT_RETURN_IF_ERROR(ReadBack({}));
  const std::string temporary = std::string(kJournalName) + ".tmp";
  const std::string path = directory_ + "/" + temporary;
  const Status status = [&]() -> Status {
    LEAT_ASSIGN_OR_RETURN(File file, File::Open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND));
    LEAT_RETURN_IF_ERROR(file.Write(bytes));
    LEAT_RETURN_IF_ERROR(file.Sync());
    LEAT_RETURN_IF_ERROR(Rename(directory_, temporary, kJournalName));
    file.set_path(file_.path());
    file_ = std::move(file);
    end_ = counted;
    trusted_ = false;
    LEAT_RETURN_IF_ERROR(SyncDirectory(directory_));
    end_ = bytes.size();
    trusted_ = true;
    return {};
  }();
  if (!status.ok()) unlink(path.c_str());
  return status;
}

}  // namespace leat::checkpoint
