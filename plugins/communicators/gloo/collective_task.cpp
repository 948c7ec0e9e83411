// Collectives in which every member takes part. Each tells all others what it calls; whoever sees
// a difference fails before any data could overrun memory. Sums are formed by one member for each
// element, or by both of two, in group order.
#include <algorithm>
#include <atomic>
#include <cstring>

#include <tessera/error.hpp>
#include <tessera/host_reduce.hpp>

#include "group.hpp"

namespace tessera::gloo_tcp {

namespace {

using Use = Members::Use;
constexpr i64 kLine = 64;

class CollectiveTask : public Task {
 public:
  CollectiveTask(std::shared_ptr<const Members> members, const Collective& collective, u64 number);
  void run(Scratch& scratch) override;
  std::string title() const override {
    return fmt::format(
        "group {}: {} \"{}\" #{}", members_->spec.name, collective_name(kind_), name_, number_);
  }
  std::string waiting_for() const override;

 private:
  struct Part {
    i64 begin = 0, bytes = 0;
  };
  int size() const { return members_->size(); }
  int index() const { return members_->index(); }
  bool small() const { return bytes_ <= kInlineBytes; }
  bool whole() const { return size() == 2; }  // both get the other's input and reduce all of it
  std::byte* input(i64 offset) const { return input_.as<std::byte>() + offset; }
  Part slice(int member) const;
  Part share(int member) const;
  const Header& own() const { return message_->header; }

  void send(int member, Use use, const void* data, i64 bytes);
  Delivery receive(int member, Use use, void* data, i64 bytes);
  void wait(Delivery& delivery, const char* reason);
  void wait_all(std::vector<Delivery>& deliveries, const char* reason);
  void wait_sent();

  void send_parts();
  void compare_headers();
  void work_inlined();
  void gather();
  void broadcast();
  void reduce(Scratch& scratch, Part part, void* target);
  void reduce_all(Scratch& scratch);

  std::shared_ptr<const Members> members_;
  const CollectiveKind kind_;
  const std::string name_;
  const u64 number_;
  const TensorArg input_, output_;
  const i64 bytes_;
  std::unique_ptr<Message> message_;
  std::vector<std::unique_ptr<Message>> heard_;  // by member
  std::vector<Delivery> headers_;                // of others, in the order of Members::other
  std::vector<Delivery> sent_;
  std::atomic<i64> waits_for_{-1};
  std::atomic<const char*> why_{""};
};

CollectiveTask::CollectiveTask(std::shared_ptr<const Members> members,
                               const Collective& collective,
                               u64 number)
    : members_(std::move(members)),
      kind_(collective.kind),
      name_(collective.name),
      number_(number),
      input_(collective.input),
      output_(collective.output),
      bytes_(bytes_of(collective.input)),
      message_(make_message(collective, members_->hash, collective.input)),
      heard_(members_->spec.members.size()) {
  const bool data = kind_ != CollectiveKind::broadcast || own().root == index();
  for (int k = 0; k < members_->others(); ++k) {
    const int member = members_->other(k);
    auto& message = heard_[static_cast<std::size_t>(member)] = make_message();
    headers_.push_back(receive(member, Use::header, message.get(), sizeof(Message)));
  }
  for (int k = 0; k < members_->others(); ++k) {
    send(members_->other(k), Use::header, message_.get(), message_bytes(*message_, data));
  }
  if (!small()) send_parts();
}

// What each member reduces, cut at cache lines.
CollectiveTask::Part CollectiveTask::slice(int member) const {
  const i64 step = (bytes_ + size() * kLine - 1) / (size() * kLine) * kLine;
  const i64 begin = std::min(member * step, bytes_);
  return {begin, std::min(begin + step, bytes_) - begin};
}

// What each member but the root passes on in a broadcast.
CollectiveTask::Part CollectiveTask::share(int member) const {
  const i64 p = size() - 1, turn = (member - own().root + size()) % size() - 1;
  const i64 step = (bytes_ + p * kLine - 1) / (p * kLine) * kLine;
  const i64 begin = std::min(turn * step, bytes_);
  return {begin, std::min(begin + step, bytes_) - begin};
}

void CollectiveTask::send(int member, Use use, const void* data, i64 bytes) {
  if (bytes == 0) return;
  const i64 rank = members_->rank_of(member);
  sent_.push_back(members_->transport->send(rank, members_->slot(use, number_), data, bytes));
}

Delivery CollectiveTask::receive(int member, Use use, void* data, i64 bytes) {
  const i64 rank = members_->rank_of(member);
  return members_->transport->receive(rank, members_->slot(use, number_), data, bytes);
}

void CollectiveTask::wait(Delivery& delivery, const char* reason) {
  why_ = reason;
  waits_for_ = delivery.rank();
  members_->transport->wait(delivery);
}

void CollectiveTask::wait_all(std::vector<Delivery>& deliveries, const char* reason) {
  for (Delivery& delivery : deliveries) wait(delivery, reason);
}

void CollectiveTask::wait_sent() {
  wait_all(sent_, "has not taken its part");
  sent_.clear();
}

std::string CollectiveTask::waiting_for() const {
  return fmt::format("rank {} {}", waits_for_.load(), why_.load());
}

// The first data go out when the collective is posted; a peer takes them when it is there.
void CollectiveTask::send_parts() {
  for (int k = 0; k < members_->others(); ++k) {
    const int member = members_->other(k);
    Part part{0, bytes_};
    if (kind_ == CollectiveKind::all_reduce && !whole()) part = slice(member);
    if (kind_ == CollectiveKind::reduce_scatter) {
      part = {member * (bytes_ / size()), bytes_ / size()};
    }
    if (kind_ == CollectiveKind::broadcast) {
      if (own().root != index()) return;
      part = share(member);
    }
    send(member, Use::part, input(part.begin), part.bytes);
  }
}

void CollectiveTask::compare_headers() {
  for (int k = 0; k < members_->others(); ++k) {
    const int member = members_->other(k);
    wait(headers_[static_cast<std::size_t>(k)], "has not come");
    const Header& other = heard_[static_cast<std::size_t>(member)]->header;
    if (same_call(own(), other)) continue;
    fail("rank {} called {}, but rank {} called {}{}: all members must call the same",
         members_->rank_of(index()),
         text_of(own()),
         members_->rank_of(member),
         text_of(other),
         own().group == other.group ? "" : " in a group of another name or other members");
  }
}

void CollectiveTask::run(Scratch& scratch) {
  compare_headers();
  if (bytes_ > 0 && small()) {
    work_inlined();
  } else if (bytes_ > 0) {
    switch (kind_) {
      case CollectiveKind::all_reduce:
        whole() ? reduce(scratch, {0, bytes_}, input(0)) : reduce_all(scratch);
        break;
      case CollectiveKind::reduce_scatter:
        reduce(scratch, {index() * (bytes_ / size()), bytes_ / size()}, output_.address);
        break;
      case CollectiveKind::all_gather:
        gather();
        break;
      default:
        broadcast();
    }
  }
  wait_sent();
}

void CollectiveTask::work_inlined() {
  std::vector<const void*> parts;
  for (int member = 0; member < size(); ++member) {
    const auto& heard = heard_[static_cast<std::size_t>(member)];
    parts.push_back(member == index() ? message_->data : heard->data);
  }
  auto* output = output_.as<std::byte>();
  switch (kind_) {
    case CollectiveKind::all_reduce:
      return reduce_elements(input_.dtype, own().op, parts, {input_.address}, input_.elements());
    case CollectiveKind::reduce_scatter:
      for (const void*& part : parts) {
        part = static_cast<const std::byte*>(part) + index() * (bytes_ / size());
      }
      return reduce_elements(input_.dtype, own().op, parts, {output}, output_.elements());
    case CollectiveKind::all_gather:
      for (const void* part : parts) {
        std::memcpy(output, part, static_cast<std::size_t>(bytes_));
        output += bytes_;
      }
      return;
    default:
      if (own().root == index()) return;
      std::memcpy(input_.address,
                  parts[static_cast<std::size_t>(own().root)],
                  static_cast<std::size_t>(bytes_));
  }
}

void CollectiveTask::gather() {
  auto* output = output_.as<std::byte>();
  std::vector<Delivery> deliveries;
  for (int k = 0; k < members_->others(); ++k) {
    const int member = members_->other(k);
    deliveries.push_back(receive(member, Use::part, output + member * bytes_, bytes_));
  }
  std::byte* place = output + index() * bytes_;
  if (place != input(0)) std::memcpy(place, input(0), static_cast<std::size_t>(bytes_));
  wait_all(deliveries, "has not sent its part");
}

// The root sends each byte once; the others pass their shares on.
void CollectiveTask::broadcast() {
  const int root = own().root;
  if (root == index()) return;
  std::vector<Delivery> deliveries;
  for (int k = 0; k < members_->others(); ++k) {
    const int member = members_->other(k);
    const Part part = share(member);
    if (member == root || part.bytes == 0) continue;
    deliveries.push_back(receive(member, Use::result, input(part.begin), part.bytes));
  }
  const Part mine = share(index());
  if (mine.bytes > 0) {
    auto from_root = receive(root, Use::part, input(mine.begin), mine.bytes);
    wait(from_root, "has not sent its part");
  }
  for (int k = 0; k < members_->others(); ++k) {
    const int member = members_->other(k);
    if (member != root) send(member, Use::result, input(mine.begin), mine.bytes);
  }
  wait_all(deliveries, "has not sent its part");
}

// Receives every other member's values of `part` and reduces them with this member's own.
void CollectiveTask::reduce(Scratch& scratch, Part part, void* target) {
  if (part.bytes == 0) return;
  std::byte* room = scratch.reserve(part.bytes * members_->others());
  std::vector<const void*> sources(static_cast<std::size_t>(size()), input(part.begin));
  std::vector<Delivery> deliveries;
  for (int k = 0; k < members_->others(); ++k) {
    const int member = members_->other(k);
    sources[static_cast<std::size_t>(member)] = room;
    deliveries.push_back(receive(member, Use::part, room, part.bytes));
    room += part.bytes;
  }
  wait_all(deliveries, "has not sent its part");
  // The target may hold what is still being sent.
  if (whole()) wait_sent();
  reduce_elements(input_.dtype, own().op, sources, {target}, part.bytes / dtype_size(input_.dtype));
}

void CollectiveTask::reduce_all(Scratch& scratch) {
  // A member sends its result after it has this member's values, so results may come in place.
  std::vector<Delivery> results;
  for (int k = 0; k < members_->others(); ++k) {
    const int member = members_->other(k);
    const Part part = slice(member);
    if (part.bytes == 0) continue;
    results.push_back(receive(member, Use::result, input(part.begin), part.bytes));
  }
  const Part mine = slice(index());
  reduce(scratch, mine, input(mine.begin));
  for (int k = 0; k < members_->others(); ++k) {
    send(members_->other(k), Use::result, input(mine.begin), mine.bytes);
  }
  wait_all(results, "has not sent its result");
}

}  // namespace

std::unique_ptr<Task> make_collective_task(std::shared_ptr<const Members> members,
                                           const Collective& collective,
                                           u64 number) {
  return std::make_unique<CollectiveTask>(std::move(members), collective, number);
}

}  // namespace tessera::gloo_tcp
