// The lines that a starting coordinator writes to the pipe of --ready-fd: "waits for TEXT" whenever the text
// changes, then its address. If the pipe ends without an address, the coordinator has failed.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace leat::launcher {

struct ReadyNews {
  std::optional<std::string> waits;  // the last that has been said; "": for nothing any more
  std::string address;               // empty: not yet
};
// `rest` keeps what follows the last whole line, until the next call.
ReadyNews TakeReady(std::string_view bytes, std::string* rest);

// Writes the address to the pipe, and closes it; -1: nobody waits for it. Returns why it cannot be written.
Status SayReady(int fd, const std::string& address);

// The line, for the pipe. Line ends within the text become spaces; a long text is cut.
std::string WaitsLine(std::string_view what);

}  // namespace leat::launcher
