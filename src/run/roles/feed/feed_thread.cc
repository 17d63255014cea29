#include "run/roles/feed/feed_thread.h"

#include <utility>

#include "base/threads/thread.h"
#include "net/transports.h"

namespace leat::roles {

Result<std::unique_ptr<FeedThread>> FeedThread::Start(const std::string& address,
                                                      net::TransportOptions transport,
                                                      feed::Contents contents) {
  std::unique_ptr<FeedThread> feed(new FeedThread(std::move(contents)));
  transport.port = feed::FeedPort();
  feed->transport_ = net::MakeTcpTransport(feed->loop_, std::move(transport));
  LEAT_ASSIGN_OR_RETURN(feed->listener_,
                        feed->transport_->Listen(address, [server = &feed->server_](auto connection) {
                          return server->Adopt(std::move(connection));
                        }));
  feed->thread_ = StartThread([loop = &feed->loop_] { loop->Run(); });
  return feed;
}

FeedThread::~FeedThread() {
  loop_.Stop();
  if (thread_.joinable()) thread_.join();
}

}  // namespace leat::roles
