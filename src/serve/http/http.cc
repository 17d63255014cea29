#include "serve/http/http.h"

#include "serve/json_text.h"

namespace leat::serve {

HttpReply ErrorReply(int status, std::string_view why) {
  HttpReply reply{.status = status, .body = "{\"error\":"};
  AppendString(why, &reply.body);
  reply.body += '}';
  return reply;
}

}  // namespace leat::serve
