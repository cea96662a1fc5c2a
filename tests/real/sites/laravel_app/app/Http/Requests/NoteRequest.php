<?php

namespace App\Http\Requests;

use Illuminate\Foundation\Http\FormRequest;

class NoteRequest extends FormRequest
{
    public function authorize()
    {
        return true;
    }

    public function rules()
    {
        return ['text' => 'required|string|min:3', 'picture' => 'nullable|file|mimes:png|max:2048'];
    }
}
