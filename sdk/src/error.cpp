#include "tessera/error.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "tessera/io/written.hpp"

namespace tessera {
namespace {

std::string framed(const ErrorFrame& frame, std::string_view whole) {
  switch (frame.kind) {
    case ErrorFrame::Kind::kernel:
    case ErrorFrame::Kind::component:
      return fmt::format("{}\n  in {}", whole, frame.text);
    case ErrorFrame::Kind::told:
    case ErrorFrame::Kind::choice:
      return std::string(whole);
    case ErrorFrame::Kind::culprit:
      return fmt::format("{}; found by {}", frame.text, whole);
    case ErrorFrame::Kind::advice:
      return fmt::format("{}; {}", whole, frame.text);
    default:
      return fmt::format("{}: {}", frame.text, whole);
  }
}

}  // namespace

struct Error::State {
  ErrorKind kind;
  i64 rank;
  Resource resource;
  std::string text;
  std::vector<ErrorFrame> frames;
  std::string whole;

  void render() {
    whole = text;
    for (const ErrorFrame& frame : frames) whole = framed(frame, whole);
  }
};

// Texts hold what users and files wrote.
Error::Error(std::string_view text, ErrorKind kind, i64 rank) {
  State state{kind, rank, Resource::none, readable(text), {}, {}};
  state.render();
  state_ = std::make_shared<const State>(std::move(state));
}
Error::~Error() = default;

const char* Error::what() const noexcept { return state_->whole.c_str(); }
ErrorKind Error::kind() const noexcept { return state_->kind; }
i64 Error::rank() const noexcept { return state_->rank; }
const std::string& Error::text() const noexcept { return state_->text; }
const std::vector<ErrorFrame>& Error::frames() const noexcept { return state_->frames; }

Resource Error::resource() const noexcept { return state_->resource; }

const ErrorFrame* Error::frame(ErrorFrame::Kind kind) const noexcept {
  const auto found = std::ranges::find(frames(), kind, &ErrorFrame::kind);
  return found == frames().end() ? nullptr : &*found;
}

Error& Error::add(ErrorFrame::Kind kind, std::string_view text) {
  State state = *state_;
  state.frames.push_back({kind, readable(text)});
  state.render();
  state_ = std::make_shared<const State>(std::move(state));
  return *this;
}

Error& Error::add(Resource resource) {
  State state = *state_;
  state.resource = resource;
  state_ = std::make_shared<const State>(std::move(state));
  return *this;
}

Error Error::of_rank(i64 rank) const {
  if (state_->rank != kNoRank) return *this;
  State state = *state_;
  state.rank = rank;
  Error error(*this);
  error.state_ = std::make_shared<const State>(std::move(state));
  return error;
}

void Error::raise() const {
  if (kind() == ErrorKind::configuration) throw ConfigError(*this);
  throw Error(*this);
}

ConfigError::ConfigError(std::string_view text) : Error(text, ErrorKind::configuration) {}
ConfigError::~ConfigError() = default;

void rethrow_with(ErrorFrame::Kind kind, std::string_view text) {
  try {
    throw;
  } catch (Error& error) {
    error.add(kind, text);
    throw;
  } catch (...) {
    throw error_in_flight().add(kind, text);
  }
}

Error error_in_flight() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error("memory ran out (std::bad_alloc)").add(Resource::memory);
  } catch (const std::system_error& error) {
    return Error(error.what()).add(resource_of(error.code().value()));
  } catch (const std::exception& error) {
    return Error(error.what());
  } catch (...) {
    return Error("an exception that is not a std::exception");
  }
}

Resource resource_of(int system_error) noexcept {
  switch (system_error) {
    case ENOMEM:
      return Resource::memory;
    case EMFILE:
    case ENFILE:
      return Resource::open_files;
    case EFBIG:
      return Resource::file_size;
    case EAGAIN:
      return Resource::threads;
    default:
      return Resource::none;
  }
}

void fail_formatted(fmt::string_view text, fmt::format_args values, int system) {
  throw Error(fmt::vformat(text, values)).add(resource_of(system));
}
void fail_config_formatted(fmt::string_view text, fmt::format_args values, int system) {
  ConfigError error(fmt::vformat(text, values));
  error.add(resource_of(system));
  throw error;
}

}  // namespace tessera

fmt::appender fmt::formatter<tessera::SystemError>::format(const tessera::SystemError& error,
                                                           format_context& to) const {
  return formatter<string_view>::format(std::strerror(error.code()), to);
}
