#include "wire/messages.h"

#include <gtest/gtest.h>

#include "wire/testing.h"

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

TEST(ForwardMessageTest, SurvivesItsEncoding) {
  protocol::ForwardRequest decided;
  decided.from = NodeId(3);
  decided.decided = ForwardedRequest().decided;
  for (const protocol::ForwardRequest& request : {ForwardedRequest(), decided}) {
    const auto decoded = DecodeForwardRequest(Encode(request));
    ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
    EXPECT_EQ(*decoded, request);
  }
  for (const protocol::ForwardReply& reply : {protocol::ForwardReply{7, 8, false, {SliceId(1), SliceId(3)}},
                                              protocol::ForwardReply{7, 8, true, {}}}) {
    const auto decoded = DecodeForwardReply(Encode(reply));
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(*decoded, reply);
  }
}

TEST(ForwardMessageTest, RefusesWhatIsNotOne) {
  RefusesOtherLengths(Encode(ForwardedRequest()), DecodeForwardRequest);
  RefusesOtherLengths(Encode(protocol::ForwardReply{7, 8, false, {SliceId(1)}}), DecodeForwardReply);
  Bytes many = Encode(ForwardedRequest());
  many[24] = std::byte{0xff};  // of the epochs
  many[27] = std::byte{0xff};
  EXPECT_FALSE(DecodeForwardRequest(many).ok());
}

}  // namespace
}  // namespace leat::wire
