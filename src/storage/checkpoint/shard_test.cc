#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <thread>

#include "protocol/placement.h"
#include "storage/checkpoint/safetensors.h"
#include "storage/checkpoint/shard.h"
#include "storage/checkpoint/testing.h"

namespace leat::checkpoint {
namespace {

constexpr std::string_view kShardSlots[] = {"moment1", "moment2"};
using Names = std::span<const std::string_view>;

// The size of a shard's head: its length field and its JSON.
size_t HeadBytes(const std::string& file) {
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  return sizeof(length) + length;
}

TEST(Shard, EverySliceComesBackBitForBit) {
  const TempDir dir;
  const auto table = MakeTable();
  for (uint32_t slots = 0; slots <= 2; ++slots) {
    const auto slices = MakeSlices(table, {4, 0, 2}, slots, 100 + slots);
    const auto shard = WriteShard(dir.path(), 12, table, Names(kShardSlots).first(slots), slices);
    ASSERT_TRUE(shard.ok()) << shard.status().ToString();
    EXPECT_EQ(shard->file, "shard-12.safetensors");
    const std::string bytes = ReadAll(dir / shard->file);
    EXPECT_EQ(shard->bytes, bytes.size());
    EXPECT_EQ(shard->checksum, Checksum(AsBytes(bytes).first(HeadBytes(bytes))));
    const auto reader = ShardReader::Open(dir / shard->file, shard->checksum);
    ASSERT_TRUE(reader.ok()) << reader.status().ToString();
    for (size_t i = 0; i < slices.size(); ++i) {
      EXPECT_EQ(shard->slices[i], (protocol::SliceIncarnation{slices[i]->id, slices[i]->incarnation}));
      const auto read = (*reader)->Read(table, slices[i]->id, slots);
      ASSERT_TRUE(read.ok()) << read.status().ToString();
      ExpectSame(*read, *slices[i]);
      std::vector<float> values(slices[i]->elements);
      ASSERT_TRUE((*reader)->ReadValues(table, slices[i]->id, values).ok());
      EXPECT_EQ(std::memcmp(values.data(), slices[i]->memory.data(), values.size() * 4), 0);
    }
    EXPECT_EQ((*reader)->Read(table, SliceId(1), slots).status().code(), Code::kNotFound);
    EXPECT_EQ((*reader)->Read(table, SliceId(5), slots).status().code(), Code::kInvalidArgument);
    EXPECT_EQ((*reader)->Read(table, SliceId(0), slots + 1).status().code(), Code::kFailedPrecondition);
  }
}

// The file does not depend on the order in which its slices are written.
TEST(Shard, UrgentSlicesAreWrittenFirstAndEachIsReleased) {
  const TempDir in_order, dir;
  const auto table = MakeTable();
  const auto expected =
      WriteShard(in_order.path(), 12, table, kShardSlots, MakeSlices(table, {4, 0, 2, 1}, 2, 5));
  ASSERT_TRUE(expected.ok());
  auto slices = MakeSlices(table, {4, 0, 2, 1}, 2, 5);
  std::map<SliceId, std::weak_ptr<const protocol::Slice>> held;
  for (const auto& slice : slices) held[slice->id] = slice;
  // A slice, the same slice when it is written already, none, and a slice of another shard.
  const std::vector<std::optional<SliceId>> urgent{SliceId(2), SliceId(2), std::nullopt, SliceId(3)};
  size_t asked = 0;
  std::vector<uint32_t> written;
  const ShardProgress progress{.urgent = [&] { return urgent.at(asked++); },
                               .written =
                                   [&](SliceId slice) {
                                     EXPECT_TRUE(held.at(slice).expired()) << slice.value;
                                     written.push_back(slice.value);
                                   }};
  const auto shard =
      WriteShard(dir.path(), 12, table, kShardSlots, std::move(slices), Durability::kSynced, progress);
  ASSERT_TRUE(shard.ok()) << shard.status().ToString();
  EXPECT_EQ(written, (std::vector<uint32_t>{2, 4, 0, 1}));
  EXPECT_EQ(ReadAll(dir / shard->file), ReadAll(in_order / expected->file));
  EXPECT_EQ(*shard, *expected);
}

TEST(Shard, AStatisticHasNoSlots) {
  const TempDir dir;
  auto table = MakeTable();
  table.variables[1].role = optim::VariableRole::kStatistic;
  auto slices = MakeSlices(table, {0, 2}, 2, 9);
  for (const uint32_t id : {3u, 4u}) slices.push_back(MakeSlice(table, id, 0, 9));
  const auto shard = WriteShard(dir.path(), 12, table, kShardSlots, slices);
  ASSERT_TRUE(shard.ok()) << shard.status().ToString();
  const auto reader = ShardReader::Open(dir / shard->file, shard->checksum);
  ASSERT_TRUE(reader.ok());
  for (const auto& slice : slices) {
    const auto read = (*reader)->Read(table, slice->id, 2);
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    ExpectSame(*read, *slice);
  }
  // As if it were trained.
  EXPECT_EQ(WriteShard(dir.path(), 12, table, kShardSlots, MakeSlices(table, {3}, 2, 9)).status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ((*reader)->Read(MakeTable(), SliceId(3), 2).status().code(), Code::kFailedPrecondition);
}

// Readable by other tools: a u64 and two f64 for each feature.
TEST(Shard, MomentsAreTensorsOfTheirTypes) {
  const TempDir dir;
  auto table = MakeTable();
  table.variables.push_back({"moments", Shape{3, 2, 2}, {}, optim::VariableRole::kMoments});
  table.slices.push_back({2, 0, 12});
  auto slices = MakeSlices(table, {4}, 2, 9);  // slice 4 has seven elements
  slices.push_back(MakeSlice(table, 5, 0, 9));
  const auto shard = WriteShard(dir.path(), 1, table, kShardSlots, slices);
  ASSERT_TRUE(shard.ok()) << shard.status().ToString();
  const std::string file = ReadAll(dir / shard->file);
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  const auto head = nlohmann::json::parse(file.substr(8, length));
  const std::string data = file.substr(8 + length);
  size_t at = 3 * 7 * 4;
  for (const auto& [name, dtype] :
       {std::pair{"moments[0:2]/count", "U64"}, {"moments[0:2]/mean", "F64"}, {"moments[0:2]/m2", "F64"}}) {
    ASSERT_TRUE(head.contains(name)) << name;
    EXPECT_EQ(head[name]["dtype"], dtype);
    EXPECT_EQ(head[name]["shape"], nlohmann::json::array({2}));
    EXPECT_EQ(head[name]["data_offsets"], nlohmann::json::array({at, at + 16}));
    at += 16;
  }
  EXPECT_EQ(data.size(), at);
  EXPECT_EQ(std::memcmp(data.data() + at - 48, slices[1]->memory.data(), 48), 0);

  const auto reader = ShardReader::Open(dir / shard->file, shard->checksum);
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  const auto read = (*reader)->Read(table, SliceId(5), 2);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  ExpectSame(*read, *slices[1]);
  std::vector<float> values(12);
  ASSERT_TRUE((*reader)->ReadValues(table, SliceId(5), values).ok());
  EXPECT_EQ(std::memcmp(values.data(), slices[1]->memory.data(), 48), 0);
  // The shard is rejected by a job that trains the variable.
  table.variables[2].role = optim::VariableRole::kTrained;
  EXPECT_EQ((*reader)->Read(table, SliceId(5), 2).status().code(), Code::kFailedPrecondition);
}

// Checks the specified format without using our code.
TEST(Shard, TheLayoutIsSafetensors) {
  const TempDir dir;
  const auto table = MakeTable();
  const auto slices = MakeSlices(table, {3, 1}, 1, 5);
  constexpr std::string_view kVelocity[] = {"velocity"};
  const auto shard = WriteShard(dir.path(), 1, table, kVelocity, slices);
  ASSERT_TRUE(shard.ok());
  const std::string file = ReadAll(dir / shard->file);
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | static_cast<unsigned char>(file[i]);
  EXPECT_EQ((8 + length) % 64, 0u);
  EXPECT_EQ(file[8], '{');
  const auto head = nlohmann::json::parse(file.substr(8, length));
  const std::string data = file.substr(8 + length);
  EXPECT_EQ(head.size(), 5u);
  for (const auto& [key, value] : head["__metadata__"].items()) EXPECT_TRUE(value.is_string()) << key;
  const auto expect = [&](const char* name, const std::byte* bytes, size_t elements) {
    ASSERT_TRUE(head.contains(name)) << name;
    EXPECT_EQ(head[name]["dtype"], "F32");
    EXPECT_EQ(head[name]["shape"], nlohmann::json::array({elements}));
    const size_t begin = head[name]["data_offsets"][0];
    const size_t end = head[name]["data_offsets"][1];
    ASSERT_EQ(end - begin, elements * 4);
    EXPECT_EQ(std::memcmp(data.data() + begin, bytes, end - begin), 0) << name;
  };
  // Each tensor has its checksum.
  for (const auto& [name, entry] : head.items()) {
    if (name == "__metadata__") continue;
    const size_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
    std::ostringstream digits;
    digits << std::hex << std::setw(16) << std::setfill('0')
           << Checksum(AsBytes(data).subspan(begin, end - begin));
    EXPECT_EQ(head["__metadata__"]["checksum/" + name], digits.str());
  }
  expect("dense/bias[0:9]", slices[0]->memory.data(), 9);
  expect("dense/bias[0:9]/velocity", slices[0]->memory.data() + 36, 9);
  expect("dense/weight[32:64]", slices[1]->memory.data(), 32);
  expect("dense/weight[32:64]/velocity", slices[1]->memory.data() + 128, 32);
  EXPECT_EQ(data.size(), 2u * 36 + 2 * 128);
}

// The status of reading all slices, each with its one slot, as servers do: without reading anything else.
Status ReadSlices(const std::string& path, uint64_t checksum, const protocol::SliceTable& table) {
  LEAT_ASSIGN_OR_RETURN(const auto reader, ShardReader::Open(path, checksum));
  for (uint32_t i = 0; i < table.slices.size(); ++i)
    LEAT_RETURN_IF_ERROR(reader->Read(table, SliceId(i), 1).status());
  return {};
}

TEST(Shard, AFlippedByteAnywhereIsDataLoss) {
  const TempDir dir;
  const auto table = MakeTable();
  const auto shard =
      WriteShard(dir.path(), 3, table, Names(kShardSlots).first(1), MakeSlices(table, {0, 1, 2, 3, 4}, 1, 1));
  ASSERT_TRUE(shard.ok());
  const std::string path = dir / shard->file;
  const std::string file = ReadAll(path);
  const auto expect_damage = [&](size_t at) {
    for (const Status& status :
         {VerifyFile(path, shard->bytes, shard->checksum), ReadSlices(path, shard->checksum, table)}) {
      EXPECT_EQ(status.code(), Code::kDataLoss) << at;
      EXPECT_EQ(status.message().find(path), 0u);
    }
  };
  ASSERT_EQ(VerifyFile(path, shard->bytes, shard->checksum), Status());
  ASSERT_EQ(ReadSlices(path, shard->checksum, table), Status());
  for (size_t i = 0; i < file.size(); ++i) {
    FlipByte(path, i, static_cast<char>(1 << i % 8));
    expect_damage(i);
    FlipByte(path, i, static_cast<char>(1 << i % 8));
  }
  for (const size_t size : {size_t{0}, size_t{7}, size_t{8}, file.size() / 2, file.size() - 1}) {
    WriteText(path, file.substr(0, size));
    expect_damage(size);
  }
  WriteText(path, file + "x");
  expect_damage(file.size() + 1);
  EXPECT_EQ(ShardReader::Open(dir / "none", 0).status().code(), Code::kNotFound);
}

TEST(Shard, OnlyWhatIsReadIsVerified) {
  const TempDir dir;
  const auto table = MakeTable();
  const auto shard =
      WriteShard(dir.path(), 3, table, Names(kShardSlots).first(1), MakeSlices(table, {0, 1}, 1, 1));
  ASSERT_TRUE(shard.ok());
  FlipByte(dir / shard->file, shard->bytes - 1, 1);  // the last slot of slice 1
  const auto reader = ShardReader::Open(dir / shard->file, shard->checksum);
  ASSERT_TRUE(reader.ok());
  EXPECT_TRUE((*reader)->Read(table, SliceId(0), 1).ok());
  const auto damaged = (*reader)->Read(table, SliceId(1), 1).status();
  EXPECT_EQ(damaged.code(), Code::kDataLoss);
  EXPECT_NE(damaged.message().find("'dense/weight[32:64]/moment1'"), std::string::npos) << damaged.message();
  std::vector<float> values(32);
  EXPECT_TRUE((*reader)->ReadValues(table, SliceId(1), values).ok());
}

// With a valid checksum, so that the header's parser has to detect the error.
TEST(Shard, AHeadThatContradictsItselfIsDataLoss) {
  const TempDir dir;
  const std::string good = R"({"__metadata__":{"format":"leat-shard-4"},)"
                           R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const auto open = [&](std::string head, uint64_t length, const std::string& data) {
    std::string file(8, '\0');
    std::memcpy(file.data(), &length, 8);
    file += head + data;
    WriteText(dir / "s", file);
    const size_t size = length < file.size() - 8 ? 8 + length : file.size();
    return ShardReader::Open(dir / "s", Checksum(AsBytes(file).first(size))).status();
  };
  const std::string data(8, 'x');
  EXPECT_TRUE(open(good, good.size(), data).ok());
  EXPECT_EQ(open(good, good.size(), data + "x").code(), Code::kDataLoss);
  EXPECT_EQ(open(good, good.size(), "").code(), Code::kDataLoss);
  EXPECT_EQ(open(good, good.size() - 1, data).code(), Code::kDataLoss);
  EXPECT_EQ(open(good, ~uint64_t{0}, data).code(), Code::kDataLoss);
  EXPECT_EQ(open(good, uint64_t{1} << 40, data).code(), Code::kDataLoss);
  EXPECT_EQ(open(std::string(1 << 20, '['), 1 << 20, "").code(), Code::kDataLoss);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string head = good;
    head.replace(head.find(from), from.size(), to);
    return open(head, head.size(), data).code();
  };
  EXPECT_EQ(with("F32", "F16"), Code::kDataLoss);
  EXPECT_EQ(with("[2]", "[3]"), Code::kDataLoss);
  EXPECT_EQ(with("[2]", "[2,1]"), Code::kDataLoss);
  EXPECT_EQ(with("[2]", "2"), Code::kDataLoss);
  EXPECT_EQ(with("[0,8]", "[8,0]"), Code::kDataLoss);
  EXPECT_EQ(with("[0,8]", "[0,-8]"), Code::kDataLoss);
  EXPECT_EQ(with("[0,8]", "[0,18446744073709551615]"), Code::kDataLoss);
  EXPECT_EQ(with("[0,8]", "[0,8.0]"), Code::kDataLoss);
  EXPECT_EQ(with("leat-shard-4", "pt"), Code::kDataLoss);
  // Overlapping tensors, and tensors with a gap.
  const std::string more = R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":)";
  EXPECT_EQ(with("[0,8]}", "[0,8]}" + more + "[4,8]}"), Code::kDataLoss);
  EXPECT_EQ(with("[2],\"data_offsets\":[0,8]}", "[1],\"data_offsets\":[0,4]}" + more + "[4,8]}"), Code::kOk);
  EXPECT_EQ(with("[2],\"data_offsets\":[0,8]}", "[0],\"data_offsets\":[0,0]}" + more + "[4,8]}"),
            Code::kDataLoss);
}

TEST(Shard, AJobWithOtherVariablesIsRefused) {
  const TempDir dir;
  const auto table = MakeTable();
  const auto shard = WriteShard(dir.path(), 3, table, {}, MakeSlices(table, {0, 4}, 0, 1));
  ASSERT_TRUE(shard.ok());
  const auto reader = ShardReader::Open(dir / shard->file, shard->checksum);
  auto other = table;
  other.variables[1].name = "dense/offset";
  EXPECT_EQ((*reader)->Read(other, SliceId(4), 0).status().code(), Code::kFailedPrecondition);
  other = table;
  other.slices[4] = {1, 9, 15};
  EXPECT_EQ((*reader)->Read(other, SliceId(4), 0).status().code(), Code::kFailedPrecondition);
}

TEST(Shard, SlicesThatAreNotTheTablesAreRefused) {
  const TempDir dir;
  const auto table = MakeTable();
  const auto twice = MakeSlices(table, {1, 1}, 0, 1);
  EXPECT_EQ(WriteShard(dir.path(), 3, table, {}, twice).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(WriteShard(dir.path(), 3, table, {}, MakeSlices(table, {1}, 1, 1)).status().code(),
            Code::kInvalidArgument);
  auto small = table;
  small.slices.pop_back();
  EXPECT_EQ(WriteShard(dir.path(), 3, small, {}, MakeSlices(table, {4}, 0, 1)).status().code(),
            Code::kInvalidArgument);
  auto strange = table;
  strange.variables[0].name = "\xff\xfe";
  EXPECT_EQ(WriteShard(dir.path(), 3, strange, {}, MakeSlices(strange, {0}, 0, 1)).status().code(),
            Code::kInvalidArgument);
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

// All saved data, including optimizer slots and ledgers, is distributed as the slices are.
TEST(Shard, NoServerWritesMoreThanItsShare) {
  protocol::SliceTable table = protocol::MakeSlices({{"dense1/weight", Shape{784, 128}, {}},
                                                     {"dense1/bias", Shape{128}, {}},
                                                     {"dense2/weight", Shape{128, 64}, {}},
                                                     {"dense2/bias", Shape{64}, {}},
                                                     {"dense3/weight", Shape{64, 10}, {}},
                                                     {"dense3/bias", Shape{10}, {}}},
                                                    1, 8);
  for (const auto kind : {protocol::Placement::kGreedy, protocol::Placement::kPartitioned}) {
    for (const uint32_t servers : {2u, 3u, 4u}) {
      const TempDir dir;
      const auto places = protocol::Place(table, kind, servers);
      std::vector<uint64_t> bytes;
      for (uint32_t server = 0; server < servers; ++server) {
        std::vector<uint32_t> ids;
        for (uint32_t i = 0; i < places.size(); ++i) {
          if (places[i] == server) ids.push_back(i);
        }
        const auto shard = WriteShard(dir.path(), server, table, kShardSlots, MakeSlices(table, ids, 2, 7));
        ASSERT_TRUE(shard.ok()) << shard.status().ToString();
        bytes.push_back(shard->bytes);
      }
      const uint64_t all = std::accumulate(bytes.begin(), bytes.end(), uint64_t{0});
      for (const uint64_t one : bytes)
        EXPECT_LE(static_cast<double>(one), 1.1 * static_cast<double>(all) / servers) << servers;
    }
  }
}

TEST(Shard, AServerWithoutSlicesWritesAnEmptyShard) {
  const TempDir dir;
  const auto shard = WriteShard(dir.path(), 3, MakeTable(), {}, {});
  ASSERT_TRUE(shard.ok());
  EXPECT_TRUE(ShardReader::Open(dir / shard->file, shard->checksum).ok());
}

// In a separate process, because the limit on file sizes applies to the process.
TEST(Shard, AFullDiskIsSaidAndLeavesNothing) {
  const TempDir dir;
  const auto table = MakeTable();
  const auto slices = MakeSlices(table, {0, 1, 2}, 2, 1);
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{600, 600};
    setrlimit(RLIMIT_FSIZE, &limit);
    const auto shard = WriteShard(dir.path(), 3, table, kShardSlots, slices);
    const bool said = shard.status().code() == Code::kResourceExhausted &&
                      shard.status().message().find(dir / "shard-3.safetensors") == 0;
    _exit(said && std::filesystem::is_empty(dir.path()) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(Shard, AMissingDirectoryIsSaid) {
  const auto shard = WriteShard("/nonexistent/leat", 3, MakeTable(), {}, {});
  EXPECT_EQ(shard.status().code(), Code::kNotFound);
  EXPECT_NE(shard.status().message().find("/nonexistent/leat/shard-3"), std::string::npos);
}

TEST(Shard, ShardsMayBeWrittenOnSeveralThreads) {
  const TempDir dir;
  const auto table = MakeTable();
  std::vector<std::thread> threads;
  for (uint64_t node = 0; node < 4; ++node) {
    threads.emplace_back([&, node] {
      const auto slices = MakeSlices(table, {0, 1, 2, 3, 4}, 2, node);
      const auto shard = WriteShard(dir.path(), node, table, kShardSlots, slices);
      ASSERT_TRUE(shard.ok());
      EXPECT_TRUE(ShardReader::Open(dir / shard->file, shard->checksum).ok());
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace leat::checkpoint
