#include "wire/transfer.h"

#include <gtest/gtest.h>

namespace leat::wire {
namespace {

TransferRequest Read() {
  return {.sequence = 7, .op = TransferOp::kRead, .name = "a/b", .offset = 3, .bytes = kMaxTransferBytes};
}
TransferRequest Open() {
  return {.sequence = 8,
          .op = TransferOp::kOpenUpload,
          .name = "x",
          .folder = 4,
          .bytes = 1ull << 40,
          .checksum = 9};
}
TransferRequest Write() {
  return {.sequence = 9,
          .op = TransferOp::kWrite,
          .name = "x",
          .folder = 4,
          .offset = 1 << 20,
          .bytes = 5,
          .checksum = 6};
}
TransferRequest Commit() {
  return {.sequence = 10, .op = TransferOp::kCommit, .name = "x", .folder = 4};
}

TEST(TransferMessageTest, RequestsSurviveTheirEncoding) {
  for (const TransferRequest& request : {Read(), Open(), Write(), Commit()}) {
    const auto decoded = DecodeTransferRequest(Encode(request));
    ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
    EXPECT_EQ(*decoded, request);
    EXPECT_EQ(PayloadBytes(request), request.op == TransferOp::kWrite ? 5u : 0u);
  }
}

TEST(TransferMessageTest, RepliesSurviveTheirEncoding) {
  for (const TransferReply& reply :
       {TransferReply{.sequence = 7, .position = 12, .checksum = 13},
        TransferReply{.sequence = 8, .status = Status(Code::kNotFound, "x: is not published")}}) {
    const auto decoded = DecodeTransferReply(Encode(reply));
    ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
    EXPECT_EQ(*decoded, reply);
  }
  const TransferReply verbose{.status = Status(Code::kInternal, std::string(3 * kMaxTransferError, 'x'))};
  const auto cut = DecodeTransferReply(Encode(verbose));
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(cut->status.message().size(), kMaxTransferError);
}

TEST(TransferMessageTest, RefusesWhatIsTruncatedOrLonger) {
  const Bytes bytes[] = {Encode(Write()), Encode(Read())};
  for (const Bytes& whole : bytes) {
    for (size_t size = 0; size < whole.size(); ++size)
      EXPECT_FALSE(DecodeTransferRequest(ByteView(whole).first(size)).ok()) << size;
    Bytes longer = whole;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(DecodeTransferRequest(longer).ok());
  }
  const Bytes reply = Encode(TransferReply{.sequence = 1, .position = 2, .checksum = 3});
  for (size_t size = 0; size < reply.size(); ++size)
    EXPECT_FALSE(DecodeTransferReply(ByteView(reply).first(size)).ok()) << size;
  Bytes code = reply;
  code[8] = std::byte{static_cast<uint8_t>(Code::kInternal) + 1};
  EXPECT_FALSE(DecodeTransferReply(code).ok());
}

TEST(TransferMessageTest, RefusesFieldsThatTheOperationDoesNotAllow) {
  const auto refused = [](TransferRequest request) { return !DecodeTransferRequest(Encode(request)).ok(); };
  auto request = Read();
  request.name.clear();
  EXPECT_TRUE(refused(request)) << "no name";
  request = Read();
  request.name.assign(kMaxTransferName + 1, 'x');
  EXPECT_TRUE(refused(request)) << "long name";
  request = Read();
  request.bytes = kMaxTransferBytes + 1;
  EXPECT_TRUE(refused(request)) << "long range";
  request = Read();
  request.offset = ~uint64_t{0} - 5;
  EXPECT_TRUE(refused(request)) << "a range that wraps";
  request = Read();
  request.folder = 1;
  EXPECT_TRUE(refused(request)) << "a folder";
  request = Write();
  request.bytes = 0;
  EXPECT_TRUE(refused(request)) << "nothing to write";
  request = Write();
  request.offset = ~uint64_t{0} - 5;
  request.bytes = 6;
  EXPECT_TRUE(refused(request)) << "a write that wraps";
  request = Open();
  request.offset = 1;
  EXPECT_TRUE(refused(request)) << "an upload that begins elsewhere";
  request = Commit();
  request.bytes = 1;
  EXPECT_TRUE(refused(request)) << "a commit with bytes";
  request = Commit();
  request.op = static_cast<TransferOp>(4);
  EXPECT_TRUE(refused(request)) << "an unknown operation";
}

}  // namespace
}  // namespace leat::wire
