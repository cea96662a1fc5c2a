<?php
function declare_late(): void
{
    function late(): string
    {
        return 'late ' . RUN;
    }

    class Late
    {
        public function late(): string
        {
            return late();
        }
    }
}
