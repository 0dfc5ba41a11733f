// lockstep/data/pool.h
//
// Objects that threads borrow: each thread works with one of its own, and what it
// learnt (a cache, a table of counts) is there for the next borrower. There are as many
// as were ever borrowed at once.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace lockstep::data {

template <class Object>
class Pool {
 public:
  /// Gives it back when it goes; must not outlive the pool.
  class Loan {
   public:
    Loan(Pool& pool, std::unique_ptr<Object> object) : pool_(pool), object_(std::move(object)) {}
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    ~Loan() { pool_.give_back(std::move(object_)); }
    Object& operator*() const noexcept { return *object_; }
    Object* operator->() const noexcept { return object_.get(); }

   private:
    Pool& pool_;
    std::unique_ptr<Object> object_;
  };

  Loan borrow() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      free_.reserve(++made_);  // so that giving back never allocates
      return {*this, std::make_unique<Object>()};
    }
    auto object = std::move(free_.back());
    free_.pop_back();
    return {*this, std::move(object)};
  }

  /// All of them, once nobody borrows any more.
  std::vector<std::unique_ptr<Object>> take_all() {
    const std::lock_guard lock(mutex_);
    return std::exchange(free_, {});
  }

 private:
  void give_back(std::unique_ptr<Object> object) noexcept {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(object));
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Object>> free_;
  std::size_t made_ = 0;
};

}  // namespace lockstep::data
