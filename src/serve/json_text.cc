#include "serve/json_text.h"

#include <nlohmann/json.hpp>

namespace leat::serve {

void AppendString(std::string_view text, std::string* out) {
  *out += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace leat::serve
