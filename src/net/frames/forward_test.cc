#include <gtest/gtest.h>

#include "base/encoding/printable.h"
#include "base/fields/files/testing.h"
#include "base/fields/testing.h"
#include "net/frames/testing.h"
#include "protocol/messages_data.h"

namespace leat::wire {
namespace {

using testing::RefusesOtherLengths;

protocol::ForwardRequest ForwardedRequest() {
  protocol::ForwardRequest request;
  request.from = NodeId(3);
  request.link = 1ull << 40;
  request.number = 7;
  request.epochs = {11, 12};
  request.versions = {7, 9};
  request.decided = {{.step = 4, .width = 70, .needed = 65, .counted = {1, 2}}};
  request.push.worker = NodeId(9);
  request.push.disposition = protocol::Disposition::kGradient;
  request.push.want_values = false;
  request.push.cut.begin.offset = request.push.cut.after.offset = 100;
  request.push.cut.end = 150;
  request.push.cut.batch_size = 8;
  request.push.run = 2;
  request.push.events = 8;
  request.push.slices = {{SliceId(1), Incarnation(5), 6}, {SliceId(4), Incarnation(5), 8}};
  return request;
}

Result<protocol::ForwardRequest> Decode(ByteView bytes) {
  return fields::Decode<protocol::ForwardRequest>(bytes, "forward");
}

TEST(ForwardMessageTest, SurvivesItsEncoding) {
  protocol::ForwardRequest decided;
  decided.from = NodeId(3);
  decided.decided = ForwardedRequest().decided;
  for (const protocol::ForwardRequest& request : {ForwardedRequest(), decided}) {
    const auto decoded = Decode(fields::Encode(request));
    ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
    EXPECT_EQ(*decoded, request);
  }
  EXPECT_EQ(fields::CodecFault<protocol::ForwardHeader>(100), "");
  EXPECT_EQ(fields::CodecFault<protocol::ForwardReply>(100), "");
}

TEST(ForwardMessageTest, BytesAreThoseOfTheTable) {
  const auto request = ForwardedRequest();
  EXPECT_EQ(ToHex(fields::Encode(request)),
            "0380808080802007020b0c020709010446410201000000000000000200000000000000" +
                ToHex(fields::Encode(request.push)));
  EXPECT_EQ(ToHex(fields::Encode(protocol::ForwardReply{7, 300, true, {SliceId(1), SliceId(200)}})),
            "07ac02010201c801");
}

TEST(ForwardMessageTest, TheDocumentsHaveItsFields) {
  EXPECT_EQ((fields::PageFault<protocol::PushRequest, protocol::StepLane, protocol::SliceRef,
                               protocol::PushReply, protocol::SliceReply, protocol::ForwardRequest,
                               protocol::DecidedStep, protocol::ForwardReply>(LEAT_FORMATS "frame.md")),
            "");
}

TEST(ForwardMessageTest, RefusesWhatIsNotOne) {
  RefusesOtherLengths(fields::Encode(ForwardedRequest()), Decode);
  Bytes many = fields::Encode(ForwardedRequest());
  many[8] = std::byte{0xff};  // epochs, and the first of them
  const auto refused = Decode(many).status();
  EXPECT_EQ(refused.code(), Code::kDataLoss);
  EXPECT_EQ(refused.message(), "forward: epochs has 1535 elements, and is cut off");
}

}  // namespace
}  // namespace leat::wire
