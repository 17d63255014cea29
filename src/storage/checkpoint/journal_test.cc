#include "storage/checkpoint/journal.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <limits>

#include "base/encoding/printable.h"
#include "base/fields/codec.h"
#include "base/fields/files/testing.h"
#include "base/fields/testing.h"
#include "storage/checkpoint/random/testing.h"
#include "storage/checkpoint/testing.h"

namespace leat::checkpoint {
namespace {

using protocol::CheckpointBegun;
using protocol::CutsMade;
using protocol::GroupNamed;
using protocol::IdsReserved;
using protocol::JournalRecord;
using protocol::LabelsMarked;
using protocol::LanesSet;
using protocol::MemberJoined;
using protocol::MembersLeft;
using protocol::Position;
using protocol::RateRaised;
using protocol::RoundMade;
using protocol::ScaleSet;
using protocol::SlicesPlaced;
using protocol::StreamStart;

MemberJoined MakeMember(uint64_t node) {
  return {{NodeId(node), protocol::Role::kServer, static_cast<uint32_t>(node),
           "ps-" + std::to_string(node) + ":1"},
          "host",
          -1,
          node << 40,
          7,
          {"north", "a", "bandwidth"}};
}

// Records of every kind and many sizes, some longer than a sector.
std::vector<JournalRecord> SomeRecords() {
  std::vector<JournalRecord> records = {StreamStart{{{0, 1}, {0, 0}, {0, 77}}}, IdsReserved{100, 200},
                                        CutsMade{}, StreamStart{}};
  for (uint64_t n = 1; n <= 12; ++n) {
    CutsMade made;
    for (uint64_t i = 0; i < n; ++i)
      made.cuts.push_back(MakeCut(static_cast<uint32_t>(i), 10 * n, 10 * n + i + 1));
    records.push_back(made);
    records.push_back(IdsReserved{n, n});
    records.push_back(MakeRound(n, 1, made.cuts));
    records.push_back(RateRaised{static_cast<float>(n), {{0, n}, {1, n}}, {{0, 9}, {2, ~uint64_t{0}}}});
    records.push_back(LanesSet{~n, static_cast<uint32_t>(n)});
    records.push_back(protocol::JournalAgreed{{NodeId(n), NodeId(~n)}});
    LabelsMarked marked{static_cast<uint32_t>(n), {}};
    for (uint64_t i = 1; i <= 3 * n; ++i) marked.marks.push_back({10 * n + i, i, i + n});
    records.push_back(marked);
    records.push_back(MakeMember(n));
    MembersLeft left;
    GroupNamed group{n, {}};
    SlicesPlaced placed;
    for (uint64_t i = 1; i <= n; ++i) {
      left.nodes.push_back(NodeId(i));
      group.members.push_back(NodeId(10 * i));
      placed.places.push_back(
          {SliceId(static_cast<uint32_t>(i)), NodeId(n), Incarnation(n * i), n + i, NodeId(n + 1), n});
    }
    records.push_back(left);
    records.push_back(group);
    records.push_back(placed);
    records.push_back(CheckpointBegun{n});
    records.push_back(protocol::PassesPlanned{{{{1, 0, n}}, {{2, n, n + 1}, {3, n + 1, ~uint64_t{0}}}}});
    const auto count = static_cast<uint32_t>(n);
    records.push_back(protocol::PublishersGrouped{count});
    records.push_back(ScaleSet{{count, 2 * count}, count - 1, n % 2 == 0, n});
  }
  return records;
}

Bytes ToFile(const std::vector<JournalRecord>& records, std::vector<size_t>* ends = nullptr) {
  Bytes file = JournalHeader();
  for (const auto& record : records) {
    const Bytes bytes = EncodeRecord(record, file.size());
    file.insert(file.end(), bytes.begin(), bytes.end());
    if (ends != nullptr) ends->push_back(file.size());
  }
  return file;
}

// Records have no operator==, so their bytes are compared.
std::vector<Bytes> Payloads(const std::vector<JournalRecord>& records) {
  std::vector<Bytes> payloads;
  for (const auto& record : records) payloads.push_back(EncodePayload(record));
  return payloads;
}

void ExpectFirst(const Result<JournalContents>& contents, const std::vector<JournalRecord>& records,
                 size_t count) {
  ASSERT_TRUE(contents.ok()) << contents.status().ToString();
  auto expected = Payloads(records);
  expected.resize(count);
  EXPECT_EQ(Payloads(contents->records), expected);
}

TEST(Journal, RecordsComeBackInOrder) {
  const auto records = SomeRecords();
  ExpectFirst(ParseJournal(ToFile(records), "j"), records, records.size());
  const auto decoded = DecodePayload(EncodePayload(CutsMade{{MakeCut(3, 5, 7)}}));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(std::get<CutsMade>(*decoded).cuts, std::vector{MakeCut(3, 5, 7)});

  auto round = MakeRound(41, 3, {MakeCut(0, 0, 96), MakeCut(1, 0, 32 * 70)});
  round.needed = 2;
  round.lanes[1].assigned = protocol::RunSet(70);
  for (const uint32_t run : {5u, 64u, 69u}) round.lanes[1].assigned.Add(run);
  const auto again = DecodePayload(EncodePayload(round));
  ASSERT_TRUE(again.ok());
  const auto& back = std::get<RoundMade>(*again);
  EXPECT_EQ(back.first_step, 41u);
  EXPECT_EQ(back.needed, 2u);
  EXPECT_EQ(back.lanes, round.lanes);

  const RateRaised raised{2.5f, {{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}};
  const auto rate = DecodePayload(EncodePayload(raised));
  ASSERT_TRUE(rate.ok());
  EXPECT_EQ(std::get<RateRaised>(*rate), raised);

  const ScaleSet set{{2, 8}, 3, true, uint64_t{1} << 40};
  const auto scale = DecodePayload(EncodePayload(set));
  ASSERT_TRUE(scale.ok());
  EXPECT_EQ(std::get<ScaleSet>(*scale), set);
}

// Journals on disk have these bytes.
TEST(Journal, EachKindHasItsBytes) {
  const auto round = MakeRound(41, 3, {MakeCut(0, 0, 96)});
  const std::vector<std::pair<JournalRecord, std::string>> expected = {
      {CutsMade{{MakeCut(3, 5, 300)}}, "01010300050005ac021032547698badcfe20ffffffffffffffff01"},
      {StreamStart{{{0, 1}, {2, 300}}}, "0202000102ac02"},
      {IdsReserved{100, 200}, "0364c801"},
      {round, "042901010000000000601032547698badcfe20ffffffffffffffff010700000000000000"},
      {RateRaised{2.5f, {{1, 2}}, {{3, 4}}}, "0500002040010102010304"},
      {LabelsMarked{3, {{7, 3, 9}}}, "060301070309"},
      {MakeMember(3),
       "070301030670732d333a310004686f73740100000000000300000700000000000000056e6f72746801610962616e647769647"
       "468"},
      {MembersLeft{{NodeId(1), NodeId(300)}}, "080201ac02"},
      {SlicesPlaced{{{SliceId(1), NodeId(2), Incarnation(3), 4, NodeId(5), 6}}}, "0901010203040506"},
      {GroupNamed{9, {NodeId(2), NodeId(1)}}, "0a09020201"},
      {CheckpointBegun{7}, "0b07"},
      {LanesSet{300, 4}, "0cac0204"},
      {ScaleSet{{2, 8}, 3, true, 5}, "0d020803010500"},
      {protocol::JournalAgreed{{NodeId(1), NodeId(2)}}, "0e020102"},
      {protocol::PassesPlanned{{{{2, 0, 9}, {1, 9, ~uint64_t{0}}}}}, "0f01020200090109ffffffffffffffffff01"},
      {protocol::PublishersGrouped{8}, "1008"}};
  EXPECT_EQ(expected.size(), std::variant_size_v<JournalRecord>);
  for (const auto& [record, bytes] : expected) {
    EXPECT_EQ(ToHex(EncodePayload(record)), bytes);
    const auto read = DecodePayload(*FromHex(bytes));
    ASSERT_TRUE(read.ok()) << bytes << ": " << read.status().ToString();
    EXPECT_EQ(EncodePayload(*read), *FromHex(bytes));
  }
  // A record from before the last field was added.
  const auto older = DecodePayload(*FromHex("0d0208030105"));
  ASSERT_TRUE(older.ok()) << older.status().ToString();
  EXPECT_EQ(std::get<ScaleSet>(*older), (ScaleSet{{2, 8}, 3, true, 5}));
}

TEST(Journal, RandomRecordsComeBackAndNothingElseDoes) {
  EXPECT_EQ(fields::CodecFault<JournalRecord>(500), "");
}

TEST(Journal, ThePageHasItsFields) {
  EXPECT_EQ(
      (fields::PageFault<protocol::PartitionLedger, JournalRecord, protocol::Manifest>(LEAT_CHECKPOINT_PAGE)),
      "");
}

TEST(Journal, ADamagedFieldIsNamed) {
  const auto error = [](const JournalRecord& record) {
    return DecodePayload(EncodePayload(record)).status().message();
  };
  EXPECT_EQ(error(CutsMade{{MakeCut(3, 5, 6), MakeCut(3, 9, 7)}}),
            "its content: cuts.cuts[1]: invalid cut: partition 3 offsets 9 to 7");
  EXPECT_EQ(error(ScaleSet{{5, 4}, 1}), "its content: scale: workers is 5:4");
  EXPECT_EQ(error(LanesSet{9, 0}), "its content: lanes.lanes is 0, at least 1");
  EXPECT_EQ(error(LabelsMarked{3, {{7, 0, 0}, {7, 0, 0}}}),
            "its content: labels: the mark of 7 events does not follow that of 7");
  EXPECT_EQ(error(protocol::PassesPlanned{{{{1, 0, 1}}, {}}}),
            "its content: passes: partition 1 has no passes");
  EXPECT_EQ(DecodePayload(*FromHex("11")).status().message(), "its content: is of unknown kind 17");
  EXPECT_EQ(DecodePayload(*FromHex("030102ff")).status().message(),
            "its content: has 1 bytes behind its end");
}

TEST(Journal, WantedNumbersAreChecked) {
  for (const ScaleSet& set : {ScaleSet{{0, 0}, 1, false}, {{5, 4}, 1, false}, {{1, 10'001}, 1, false}}) {
    EXPECT_FALSE(DecodePayload(EncodePayload(set)).ok());
  }
  Bytes payload = EncodePayload(ScaleSet{{1, 2}, 0, true});
  EXPECT_TRUE(DecodePayload(payload).ok());
  payload[4] = std::byte{2};
  EXPECT_FALSE(DecodePayload(payload).ok());
}

TEST(Journal, CompactionKeepsTheLastWantedNumbers) {
  const ScaleSet first{{1, 1}, 1, true}, last{{2, 8}, 1, false};
  EXPECT_EQ(Payloads(Compact({first, IdsReserved{1, 1}, last}, {{0, 9}})),
            Payloads({IdsReserved{1, 1}, last}));
}

TEST(Journal, PublishingGroupsAreCheckedAndKept) {
  const protocol::PublishersGrouped grouped{8};
  const auto decoded = DecodePayload(EncodePayload(grouped));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(std::get<protocol::PublishersGrouped>(*decoded), grouped);
  EXPECT_EQ(DecodePayload(EncodePayload(protocol::PublishersGrouped{0})).status().code(), Code::kDataLoss);
  EXPECT_EQ(Payloads(Compact({grouped, IdsReserved{1, 1}}, {{0, 9}})),
            Payloads({IdsReserved{1, 1}, grouped}));
}

TEST(Journal, AFileThatEndsInItsLastRecordLosesThatRecordAlone) {
  const auto records = SomeRecords();
  std::vector<size_t> ends;
  const Bytes file = ToFile(records, &ends);
  size_t whole = 0;
  for (size_t size = JournalHeader().size(); size <= file.size(); size += kEachByte) {
    while (whole < ends.size() && ends[whole] <= size) ++whole;
    const auto contents = ParseJournal(ByteView(file).first(size), "j");
    ExpectFirst(contents, records, whole);
    EXPECT_EQ(contents->end, whole == 0 ? JournalHeader().size() : ends[whole - 1]);
  }
}

TEST(Journal, ALastRecordOfWhichSectorsWereNotWrittenIsDropped) {
  const auto records = SomeRecords();
  std::vector<size_t> ends;
  const Bytes file = ToFile(records, &ends);
  for (size_t last = 1; last < records.size(); ++last) {
    const size_t at = ends[last - 1];
    Bytes torn(file.begin(), file.begin() + static_cast<ptrdiff_t>(ends[last]));
    for (size_t from = (ends[last] - 1) / 512 * 512;; from -= 512) {
      const size_t begin = std::max(from, at);
      std::fill(torn.begin() + static_cast<ptrdiff_t>(begin), torn.end(), std::byte{0});
      ExpectFirst(ParseJournal(torn, "j"), records, last);
      if (from <= at) break;
    }
  }
}

TEST(Journal, AFlippedByteAnywhereIsDataLoss) {
  const auto records = SomeRecords();
  std::vector<size_t> ends;
  Bytes file = ToFile(records, &ends);
  for (size_t i = 0; i < file.size(); i += kEachByte) {
    for (const int bits : {1 << i % 8, 0xff}) {
      file[i] ^= static_cast<std::byte>(bits);
      const auto contents = ParseJournal(file, "dir/journal");
      ASSERT_EQ(contents.status().code(), Code::kDataLoss) << "byte " << i << " of " << file.size();
      EXPECT_EQ(contents.status().message().find("dir/journal: "), 0u);
      file[i] ^= static_cast<std::byte>(bits);
    }
  }
}

TEST(Journal, RecordsThatAreLostSwappedOrRepeatedAreDataLoss) {
  const IdsReserved a{1, 1};
  const IdsReserved b{2, 2};
  const Bytes good = ToFile({a, b, a});
  const size_t head = JournalHeader().size();
  const size_t size = (good.size() - head) / 3;
  const auto piece = [&](size_t i) {
    const auto begin = good.begin() + static_cast<ptrdiff_t>(head + i * size);
    return Bytes(begin, begin + static_cast<ptrdiff_t>(size));
  };
  for (const auto& order : {std::vector<size_t>{1, 0, 2}, {0, 2}, {0, 0, 1, 2}, {1, 2}}) {
    Bytes file = JournalHeader();
    for (const size_t i : order) {
      const Bytes bytes = piece(i);
      file.insert(file.end(), bytes.begin(), bytes.end());
    }
    EXPECT_EQ(ParseJournal(file, "j").status().code(), Code::kDataLoss);
  }
}

// With valid checksums, so that the payload's parser has to detect the error.
TEST(Journal, PayloadsThatSayTooMuchAreDataLoss) {
  for (const uint8_t kind : {0, 1, 2, 4, 5, 6, 7, 8, 9, 255}) {
    ByteWriter payload;
    payload.Put(kind);
    PutVarint(~uint32_t{0}, &payload);
    payload.Put(uint64_t{1});
    EXPECT_EQ(DecodePayload(payload.view()).status().code(), Code::kDataLoss) << int{kind};
  }
  auto cut = MakeCut(0, 9, 9);  // empty: not valid
  EXPECT_EQ(DecodePayload(EncodePayload(CutsMade{{cut}})).status().code(), Code::kDataLoss);
  Bytes longer = EncodePayload(IdsReserved{1, 2});
  longer.push_back(std::byte{0});
  EXPECT_EQ(DecodePayload(longer).status().code(), Code::kDataLoss);
  EXPECT_EQ(ParseJournal(ToFile({CutsMade{{cut}}}), "j").status().code(), Code::kDataLoss);
  EXPECT_EQ(ParseJournal({}, "j").status().code(), Code::kDataLoss);
}

TEST(Journal, RoundsThatAreNoneAreDataLoss) {
  const auto decodes = [](const RoundMade& round) { return DecodePayload(EncodePayload(round)).ok(); };
  const auto good = MakeRound(1, 2, {MakeCut(0, 0, 96), MakeCut(1, 0, 70)});
  EXPECT_TRUE(decodes(good));
  EXPECT_FALSE(decodes(MakeRound(1, 2, {}))) << "no lanes";
  for (const uint32_t needed : {0u, 3u}) {
    auto round = good;
    round.needed = needed;
    EXPECT_FALSE(decodes(round)) << needed << " of 2 needed";
  }
  EXPECT_FALSE(decodes(MakeRound(1, 0, {MakeCut(0, 0, 96)}))) << "no steps";
  auto uneven = good;
  uneven.lanes[0].assigned.Add(2);
  EXPECT_FALSE(decodes(uneven)) << "lanes of different lengths";
  auto invalid = good;
  invalid.lanes[1].cut.run = 0;
  invalid.lanes[1].assigned = protocol::RunSet(3, true);
  EXPECT_FALSE(decodes(invalid)) << "no valid cut";

  Bytes past = EncodePayload(good);
  past.back() = std::byte{0x80};  // a run past the end of its cut
  EXPECT_FALSE(DecodePayload(past).ok());
  Bytes many = EncodePayload(good);
  many[3] = std::byte{0x7f};
  EXPECT_FALSE(DecodePayload(many).ok());
}

TEST(Journal, RatesThatAreNoneAreDataLoss) {
  EXPECT_TRUE(DecodePayload(EncodePayload(RateRaised{1000, {}, {}})).ok());
  for (const float factor : {0.0f, -2.0f, 1001.0f, std::numeric_limits<float>::infinity()})
    EXPECT_FALSE(DecodePayload(EncodePayload(RateRaised{factor, {}, {}})).ok()) << factor;
  Bytes many = EncodePayload(RateRaised{2, {{0, 1}}, {{0, 2}}});
  many[1 + 4] = std::byte{0x7f};
  EXPECT_FALSE(DecodePayload(many).ok());
  EXPECT_FALSE(DecodePayload(EncodePayload(RateRaised{2, {{0, 1}}, {}})).ok()) << "of no partition";
}

TEST(Journal, LabelMarksThatDoNotAscendAreDataLoss) {
  const auto decodes = [](std::vector<protocol::LabelMark> marks) {
    return DecodePayload(EncodePayload(LabelsMarked{3, std::move(marks)})).ok();
  };
  EXPECT_TRUE(decodes({}));
  EXPECT_TRUE(decodes({{1, 0, 0}, {2, 0, 0}, {7, 5, 9}, {8, 9, 9}}));
  EXPECT_FALSE(decodes({{0, 0, 0}})) << "no events";
  EXPECT_FALSE(decodes({{1, 5, 4}}));
  EXPECT_FALSE(decodes({{7, 0, 0}, {7, 0, 0}}));
  EXPECT_FALSE(decodes({{7, 3, 9}, {8, 2, 9}}));
  EXPECT_FALSE(decodes({{7, 3, 9}, {8, 3, 8}}));

  const auto back = DecodePayload(EncodePayload(LabelsMarked{3, {{7, 3, 9}, {8, 4, ~uint64_t{0}}}}));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(std::get<LabelsMarked>(*back), (LabelsMarked{3, {{7, 3, 9}, {8, 4, ~uint64_t{0}}}}));
}

TEST(Journal, NumbersOfLanesThatNoStepHasAreDataLoss) {
  for (const uint32_t lanes : {1u, 7u, protocol::StrategyConfig::kMaxLanes}) {
    const auto back = DecodePayload(EncodePayload(LanesSet{9, lanes}));
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(std::get<LanesSet>(*back), (LanesSet{9, lanes}));
  }
  for (const uint32_t lanes : {0u, protocol::StrategyConfig::kMaxLanes + 1, ~0u})
    EXPECT_FALSE(DecodePayload(EncodePayload(LanesSet{9, lanes})).ok()) << lanes;
}

TEST(Journal, WhatIsAppendedComesBackWhenItIsSealed) {
  const TempDir dir;
  const auto records = SomeRecords();
  {
    auto journal = Journal::Create(dir.path());
    ASSERT_TRUE(journal.ok());
    for (const auto& record : records) ASSERT_TRUE(journal->Append(record).ok());
    EXPECT_EQ(Payloads(*journal->Read()), Payloads(records));
  }
  const std::string file = ReadAll(dir / "journal");
  EXPECT_EQ(file, AsText(ToFile(records)));
  const auto read = SealJournal(dir.path(), 2);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(Payloads(*read), Payloads(records));
  auto next = Journal::Create(dir.path(), *read);
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(ReadAll(dir / "journal"), file);
  ASSERT_TRUE(next->Append(IdsReserved{2, 2}).ok());
  EXPECT_EQ(next->Read()->size(), records.size() + 1);
}

TEST(Journal, ATornRecordIsDroppedWhenItIsSealed) {
  const auto records = SomeRecords();
  const Bytes file = ToFile(records);
  for (const size_t lost : {1, 3, 9}) {
    const TempDir dir;
    WriteText(dir / "journal", AsText(file).substr(0, file.size() - lost));
    auto read = SealJournal(dir.path(), 7);
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    auto expected = Payloads(records);
    expected.pop_back();
    EXPECT_EQ(Payloads(*read), expected);
  }
}

TEST(Journal, MembersThatAreNoneAreDataLoss) {
  const MemberJoined good = MakeMember(3);
  const auto back = DecodePayload(EncodePayload(good));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(std::get<MemberJoined>(*back), good);
  Bytes place = EncodePayload(good);
  place.back() = std::byte{'-'};
  EXPECT_FALSE(DecodePayload(place).ok());
  MemberJoined other = good;
  other.member.role = protocol::Role{6};
  EXPECT_FALSE(DecodePayload(EncodePayload(other)).ok());
  other = good;
  other.member.state = protocol::Member::State{3};
  EXPECT_FALSE(DecodePayload(EncodePayload(other)).ok());
  for (std::string* text : {&(other = good).member.address, &other.host}) {
    *text = std::string(1024, 'a');
    EXPECT_TRUE(DecodePayload(EncodePayload(other)).ok());
    text->push_back('a');
    EXPECT_FALSE(DecodePayload(EncodePayload(other)).ok());
    text->clear();
  }
}

// The place was added last: a record without it ends before.
TEST(Journal, AMemberFromBeforePlacesIsRead) {
  const MemberJoined good = MakeMember(3);
  Bytes former = EncodePayload(good);
  const size_t place = fields::Encode(good.place).size();
  former.resize(former.size() - place);
  const auto read = DecodePayload(former);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  MemberJoined expected = good;
  expected.place = {};
  EXPECT_EQ(std::get<MemberJoined>(*read), expected);
  EXPECT_EQ(EncodePayload(*read).size(), former.size() + 3) << "is written with empty names";

  const Bytes whole = EncodePayload(good);
  for (size_t size = former.size() + 1; size < whole.size(); ++size)
    EXPECT_FALSE(DecodePayload(ByteView(whole).first(size)).ok()) << size;
}

TEST(Journal, CompactKeepsTheMembershipAsItIs) {
  const SlicesPlaced first{
      {{SliceId(0), NodeId(1), Incarnation(5)}, {SliceId(1), NodeId(2), Incarnation(6)}}},
      moved{{{SliceId(0), NodeId(2), Incarnation(9), 12}}};
  const std::vector<JournalRecord> records = {MakeMember(1),
                                              first,
                                              MakeMember(2),
                                              CheckpointBegun{1},
                                              MembersLeft{{NodeId(1), NodeId(8)}},
                                              GroupNamed{3, {NodeId(1)}},
                                              moved,
                                              CheckpointBegun{2},
                                              GroupNamed{4, {NodeId(2)}},
                                              MakeMember(3)};
  EXPECT_EQ(Payloads(Compact(records, {})),
            Payloads({MakeMember(2), MakeMember(3), SlicesPlaced{{moved.places[0], first.places[1]}},
                      GroupNamed{4, {NodeId(2)}}, CheckpointBegun{2}}));
}

// In a separate process, because the limit on file sizes applies to the process.
TEST(Journal, AFailedAppendLeavesTheJournalAsItWas) {
  const TempDir dir;
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    auto journal = Journal::Create(dir.path());
    if (!journal.ok() || !journal->Append(IdsReserved{1, 1}).ok()) _exit(1);
    CutsMade many;
    for (uint64_t i = 0; i < 30; ++i) many.cuts.push_back(MakeCut(0, i, i + 1));
    rlimit limit{200, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
    if (journal->Append(many).code() != Code::kResourceExhausted) _exit(2);
    if (!journal->Append(IdsReserved{2, 2}).ok()) _exit(3);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(ReadAll(dir / "journal"), AsText(ToFile({IdsReserved{1, 1}, IdsReserved{2, 2}})));
}

TEST(Journal, DamageUnderARunningJournalIsNoticedWhenItIsReadAgain) {
  const TempDir dir;
  auto journal = Journal::Create(dir.path());
  ASSERT_TRUE(journal.ok());
  ASSERT_TRUE(journal->Append(IdsReserved{1, 1}).ok());
  std::filesystem::resize_file(dir / "journal", 20);
  EXPECT_EQ(journal->Read().status().code(), Code::kDataLoss);
}

TEST(Journal, CompactKeepsTheNewestPasses) {
  const protocol::PassesPlanned first{{{{2, 0, 9}}}}, last{{{{2, 0, 9}, {2, 9, 12}}}};
  EXPECT_EQ(Payloads(Compact({first, IdsReserved{1, 1}, last}, {{3, 12}})),
            Payloads({IdsReserved{1, 1}, last}));
}

TEST(Journal, PassesThatCannotBeAreDataLoss) {
  for (const protocol::Passes& wrong : std::vector<protocol::Passes>{{}, {{0, 1, 2}}, {{1, 3, 2}}})
    EXPECT_EQ(DecodePayload(EncodePayload(protocol::PassesPlanned{{wrong}})).status().code(),
              Code::kDataLoss);
}

TEST(Journal, CompactKeepsTheLaterCutsAndTheNewestOfTheRest) {
  const std::vector<JournalRecord> records = {StreamStart{{{0, 1}}},
                                              CutsMade{{MakeCut(0, 1, 5), MakeCut(1, 0, 9)}},
                                              IdsReserved{1, 1},
                                              CutsMade{{MakeCut(0, 5, 9)}},
                                              IdsReserved{2, 5},
                                              CutsMade{{MakeCut(0, 9, 12), MakeCut(7, 0, 1)}},
                                              StreamStart{{{0, 1}, {0, 2}}}};
  const auto kept = Compact(records, {{0, 9}, {0, 8}});
  EXPECT_EQ(Payloads(kept),
            Payloads({StreamStart{{{0, 1}, {0, 2}}}, IdsReserved{2, 5}, CutsMade{{MakeCut(1, 0, 9)}},
                      CutsMade{{MakeCut(0, 9, 12), MakeCut(7, 0, 1)}}}));
  EXPECT_EQ(Payloads(Compact({}, {{3, 9}})), Payloads({}));
}

TEST(Journal, CompactKeepsRatesThatACutBehindTheWatermarkMayHave) {
  const RateRaised over{2, {{0, 1}, {0, 1}}, {{0, 9}, {0, 8}}}, half{3, {{0, 1}, {0, 1}}, {{0, 9}, {0, 9}}},
      later{2, {{0, 20}, {0, 20}}, {{1, 0}, {1, 0}}};
  EXPECT_EQ(Payloads(Compact({over, half, IdsReserved{1, 1}, later}, {{0, 9}, {0, 8}})),
            Payloads({IdsReserved{1, 1}, half, later}));
}

TEST(Journal, CompactKeepsTheLanesOfItsRounds) {
  const std::vector<JournalRecord> records = {LanesSet{0, 1}, MakeRound(0, 1, {MakeCut(0, 0, 32)}),
                                              LanesSet{1, 2}, MakeRound(1, 1, {MakeCut(0, 32, 64)}),
                                              LanesSet{2, 3}, MakeRound(2, 1, {MakeCut(0, 64, 96)})};
  EXPECT_EQ(Payloads(Compact(records, {{0, 0}})), Payloads(records));
  EXPECT_EQ(Payloads(Compact(records, {{0, 40}})),
            Payloads({records[2], records[3], records[4], records[5]}));
  EXPECT_EQ(Payloads(Compact(records, {{0, 96}})), Payloads({records[4]}));
}

TEST(Journal, CompactKeepsLabelMarksOfLaterEventsAndTheLastOfEachPartition) {
  const std::vector<JournalRecord> records = {
      LabelsMarked{0, {{5, 0, 2}, {9, 1, 4}}}, LabelsMarked{1, {{3, 0, 1}, {8, 0, 2}}},
      LabelsMarked{0, {{12, 1, 6}}}, IdsReserved{1, 1}, LabelsMarked{7, {{1, 0, 1}}}};
  // A cut that begins at 9 is joined from the mark of 12 on.
  EXPECT_EQ(
      Payloads(Compact(records, {{0, 9}, {0, 8}})),
      Payloads({IdsReserved{1, 1}, LabelsMarked{1, {{8, 0, 2}}}, LabelsMarked{0, {{12, 1, 6}}}, records[4]}));
  EXPECT_EQ(Payloads(Compact(records, {{0, 8}, {0, 2}})),
            Payloads({IdsReserved{1, 1}, LabelsMarked{0, {{9, 1, 4}}}, records[1], records[2], records[4]}));
}

TEST(Journal, CompactKeepsRoundsWholeUntilTheWatermarkPassesAllTheirCuts) {
  const std::vector<JournalRecord> records = {StreamStart{{{0, 0}, {0, 0}}},
                                              MakeRound(0, 1, {MakeCut(0, 0, 32), MakeCut(1, 0, 32)}),
                                              MakeRound(1, 1, {MakeCut(0, 32, 64), MakeCut(1, 32, 64)}),
                                              MakeRound(2, 1, {MakeCut(0, 64, 96), MakeCut(1, 64, 96)})};
  const auto kept = Compact(records, {{0, 64}, {0, 32}});
  EXPECT_EQ(Payloads(kept), Payloads({records[0], records[2], records[3]}));
}

}  // namespace
}  // namespace leat::checkpoint
