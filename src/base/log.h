// spdlog, without what it would compile again in every source that writes a message.
#pragma once

#include <spdlog/spdlog.h>

#ifndef SPDLOG_COMPILED_LIB
#error "link spdlog::spdlog: without it each source compiles all of spdlog, and has a logger of its own"
#endif

#if FMT_VERSION < 100000 && !defined(__clang__)
// The library has it. Later versions declare it themselves, and clang gives it another name than g++, which
// has compiled the library.
extern template void fmt::detail::vformat_to<char>(fmt::detail::buffer<char>& out, fmt::string_view format,
                                                   fmt::format_args arguments, fmt::detail::locale_ref);
#endif
