<?php
// Each kind of declaration, hoisted, late and conditional; the statements between them run each time.
namespace Shop;

use Stringable;

interface Named
{
    public const LANGUAGE = 'en';
    public function name(): string;
}

trait Priced
{
    public function price(): int
    {
        return strlen(static::class);
    }
}

enum Size: string
{
    case Small = 's';
    case Large = 'l';

    public static function of(int $price): self
    {
        return $price > 9 ? self::Large : self::Small;
    }
}

class Ware extends Base implements Named, Stringable
{
    use Priced;

    public function name(): string
    {
        return self::LANGUAGE;
    }

    public function __toString(): string
    {
        return $this->name() . $this->price() . Size::of($this->price())->value;
    }
}

final class Gift extends Ware
{
}

const RATE = 20;
const SEEN = \RUN . '-' . RATE;
define('Shop\RATES', [\RUN => RATE]);

function total(Base ...$wares): int
{
    return array_sum(array_map(static fn (Base $ware) => $ware->price(), $wares));
}

if (!function_exists('Shop\guarded')) {
    function guarded(): string
    {
        return 'guarded';
    }
}

if (PHP_VERSION_ID > 80000) {
    function unguarded(): string
    {
        return 'unguarded';
    }

    class Conditional
    {
        public string $is = 'new';
    }
} else {
    class Conditional
    {
        public string $is = 'old';
    }
}

class_alias(Ware::class, 'Goods');

$count = static function (): int {
    static $count = 0;
    return ++$count;
};
static $calls = 0;
$calls++;
$anonymous = new class extends Ware {
    public function name(): string
    {
        return 'anonymous';
    }

    public function price(): int
    {
        return 1;
    }
};

return [
    (string) new Gift(), (string) new \Goods(), (string) $anonymous, total(new Ware(), new Gift()), SEEN, RATES, guarded(), unguarded(),
    (new Conditional())->is, $count() + $count(), $calls, Size::from('l')->name, __LINE__, basename(__FILE__),
];
