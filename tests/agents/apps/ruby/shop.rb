module Shop
  def self.item(number)
    doubled = number * 2
    "item #{number}, #{doubled}\n"
  end

  def self.never
    'not called'
  end
end
