#include "net/frames/messages.h"

#include <gtest/gtest.h>

#include "base/encoding/printable.h"
#include "base/fields/files/testing.h"
#include "base/fields/testing.h"

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
    EXPECT_EQ(fields::CodecFault(request), "");
    EXPECT_EQ(PayloadBytes(request), request.op == TransferOp::kWrite ? 5u : 0u);
  }
}

TEST(TransferMessageTest, RepliesSurviveTheirEncoding) {
  for (const TransferReply& reply :
       {TransferReply{.sequence = 7, .position = 12, .checksum = 13},
        TransferReply{.sequence = 8, .status = Status(Code::kNotFound, "x: is not published")}})
    EXPECT_EQ(fields::CodecFault(reply), "");
  const TransferReply verbose{.status = Status(Code::kInternal, std::string(3 * kMaxTransferError, 'x'))};
  const auto cut = fields::Decode<TransferReply>(fields::Encode(verbose), "reply");
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(cut->status.message().size(), kMaxTransferError);
}

TEST(TransferMessageTest, BytesAreThoseOfTheTable) {
  EXPECT_EQ(ToHex(fields::Encode(Read())), "070003612f6200038080400000000000000000");
  EXPECT_EQ(ToHex(fields::Encode(Open())), "0801017804008080808080200900000000000000");
  EXPECT_EQ(ToHex(fields::Encode(Write())), "0902017804808040050600000000000000");
  EXPECT_EQ(ToHex(fields::Encode(Commit())), "0a0301780400000000000000000000");
  EXPECT_EQ(ToHex(fields::Encode(TransferReply{.sequence = 7, .position = 300, .checksum = 13})),
            "0700ac020d00000000000000");
  EXPECT_EQ(ToHex(fields::Encode(TransferReply{.sequence = 8, .status = Status(Code::kNotFound, "x")})),
            "08020178000000000000000000");
}

TEST(TransferMessageTest, TheDocumentsHaveItsFields) {
  EXPECT_EQ((fields::PageFault<TransferRequest, TransferReply>(LEAT_FORMATS "transfer.md")), "");
}

TEST(TransferMessageTest, RefusesAnErrorWithNumbers) {
  const TransferReply reply{.status = Status(Code::kNotFound, "x"), .position = 1};
  EXPECT_FALSE(fields::Decode<TransferReply>(fields::Encode(reply), "reply").ok());
  Bytes code = fields::Encode(TransferReply{.sequence = 1, .position = 2, .checksum = 3});
  code[1] = std::byte{static_cast<uint8_t>(Code::kInternal) + 1};
  EXPECT_EQ(fields::Decode<TransferReply>(code, "reply").status().message(), "reply: status has code 12");
}

TEST(TransferMessageTest, RefusesFieldsThatTheOperationDoesNotAllow) {
  const auto error = [](TransferRequest request, auto change) {
    change(&request);
    const auto read = fields::Decode<TransferRequest>(fields::Encode(request), "request");
    EXPECT_EQ(read.status().code(), Code::kDataLoss);
    return read.status().message();
  };
  EXPECT_EQ(error(Read(), [](auto* r) { r->name.clear(); }), "request: name is empty");
  EXPECT_EQ(error(Read(), [](auto* r) { r->name.assign(kMaxTransferName + 1, 'x'); }),
            "request: name has 256 bytes, at most 255");
  EXPECT_EQ(error(Read(), [](auto* r) { r->bytes = kMaxTransferBytes + 1; }), "request: bytes is 1048577");
  EXPECT_EQ(error(Read(), [](auto* r) { r->offset = ~uint64_t{0} - 5; }), "request: bytes is 1048576");
  EXPECT_EQ(error(Read(), [](auto* r) { r->folder = 1; }), "request: folder is 1");
  EXPECT_EQ(error(Read(), [](auto* r) { r->checksum = 1; }), "request: checksum is 1");
  EXPECT_EQ(error(Write(), [](auto* r) { r->bytes = 0; }), "request: bytes is 0");
  EXPECT_EQ(error(Write(), [](auto* r) { r->bytes = kMaxTransferBytes + 1; }), "request: bytes is 1048577");
  EXPECT_EQ(error(Write(), [](auto* r) { r->offset = ~uint64_t{0} - 4; }), "request: bytes is 5");
  EXPECT_EQ(error(Open(), [](auto* r) { r->offset = 1; }), "request: offset is 1");
  EXPECT_EQ(error(Commit(), [](auto* r) { r->offset = 1; }), "request: offset is 1");
  EXPECT_EQ(error(Commit(), [](auto* r) { r->bytes = 1; }), "request: bytes is 1");
  EXPECT_EQ(error(Commit(), [](auto* r) { r->checksum = 1; }), "request: checksum is 1");
  EXPECT_EQ(error(Commit(), [](auto* r) { r->op = static_cast<TransferOp>(4); }), "request: op is 4");
}

}  // namespace
}  // namespace leat::wire
